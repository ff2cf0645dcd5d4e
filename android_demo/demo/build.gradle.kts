import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
    alias(libs.plugins.kotlin.serialization)
}

// The build that a device farm's test runs in: it calls what nothing else in the app does.
val tested = providers.gradleProperty("testBuildType").getOrElse("debug")

android {
    namespace = "io.github.tfdistill.demo"
    compileSdk = 35

    defaultConfig {
        applicationId = "io.github.tfdistill.demo"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "1.0"
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
    }

    androidResources {
        // So that they are mapped straight from the package.
        noCompress += listOf("tflite", "int8")
    }

    buildTypes {
        // What is measured: Android runs the Kotlin code of a debug build unoptimized.
        create("benchmark") {
            matchingFallbacks += "release"
            signingConfig = signingConfigs.getByName("debug")
            isMinifyEnabled = tested != "benchmark"
            isShrinkResources = tested != "benchmark"
            proguardFiles(
                getDefaultProguardFile("proguard-android-optimize.txt"),
                "proguard-rules.pro",
            )
        }
    }

    // A package for each processor, since most of one are LiteRT's libraries; a farm's is whole.
    splits {
        abi {
            isEnable = tested != "benchmark"
            reset()
            include("arm64-v8a", "x86_64")
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    sourceSets {
        getByName("test") {
            kotlin.srcDir("../text/src/testFixtures/kotlin")
            resources.srcDir("../text/src/test/resources")
        }
    }

    testBuildType = tested

    testOptions { unitTests.isIncludeAndroidResources = true }
}

kotlin { compilerOptions { jvmTarget = JvmTarget.JVM_17 } }

dependencies {
    implementation(project(":benchmark"))
    implementation(project(":runtime")) { exclude(group = "org.tensorflow") } // litert has the same
    implementation(libs.litert)
    androidTestImplementation(libs.androidx.test.runner)
    androidTestImplementation(libs.junit)
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
