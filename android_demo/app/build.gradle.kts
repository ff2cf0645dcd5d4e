import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
    alias(libs.plugins.kotlin.serialization)
}

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
        noCompress += listOf("tflite", "int8") // so that they are mapped straight from the package
    }

    buildTypes {
        release {
            // To be measured, not to be published: a debug build runs its own code unoptimized.
            signingConfig = signingConfigs.getByName("debug")
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    sourceSets { getByName("test").resources.srcDir("../core/src/test/resources") }

    testBuildType = providers.gradleProperty("testBuildType").getOrElse("debug")

    testOptions { unitTests.isIncludeAndroidResources = true }
}

kotlin { compilerOptions { jvmTarget = JvmTarget.JVM_17 } }

dependencies {
    implementation(project(":core"))
    implementation(libs.litert)
    androidTestImplementation(libs.androidx.test.runner)
    androidTestImplementation(libs.junit)
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
