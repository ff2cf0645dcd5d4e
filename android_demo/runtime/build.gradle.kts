import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    alias(libs.plugins.android.library)
    alias(libs.plugins.kotlin.android)
    `maven-publish`
}

android {
    namespace = "io.github.tfdistill.runtime"
    compileSdk = 35

    defaultConfig { minSdk = 26 }

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

    publishing { singleVariant("release") { withSourcesJar() } }

    testOptions { unitTests.isIncludeAndroidResources = true }
}

kotlin {
    explicitApi()
    compilerOptions {
        jvmTarget = JvmTarget.JVM_17
        allWarningsAsErrors = true
    }
}

dependencies {
    api(project(":text"))
    implementation(libs.tensorflow.lite)
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}

// gradle :runtime:publishToMavenLocal, as mvn install does.
publishing {
    publications {
        register<MavenPublication>("library") {
            groupId = "io.github.tfdistill"
            artifactId = "runtime"
            version = libs.versions.library.get()
            afterEvaluate { from(components["release"]) }
            pom {
                name = "tfdistill runtime"
                description = "Runs bundles of tfdistill on Android, with TensorFlow Lite"
                licenses {
                    license {
                        name = "Apache-2.0"
                        url = "https://www.apache.org/licenses/LICENSE-2.0.txt"
                    }
                }
            }
        }
    }
}
