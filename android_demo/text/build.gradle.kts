import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    `java-library`
    `maven-publish`
    alias(libs.plugins.kotlin.jvm)
    alias(libs.plugins.kotlin.serialization)
}

// No toolchain: whatever JDK Android Studio runs on, 17 or later, compiles for 17.
java {
    sourceCompatibility = JavaVersion.VERSION_17
    targetCompatibility = JavaVersion.VERSION_17
    withSourcesJar()
}

kotlin {
    explicitApi()
    compilerOptions {
        jvmTarget = JvmTarget.JVM_17
        freeCompilerArgs.add("-Xjdk-release=17") // methods of a later JDK are not on phones
        // What invokedynamic links at its first call a JVM that starts pays for.
        freeCompilerArgs.addAll(
            listOf("-Xlambdas=class", "-Xsam-conversions=class", "-Xstring-concat=inline")
        )
        allWarningsAsErrors = true
    }
}

// Toy models and what replays them: other modules' tests have them, too.
sourceSets { test { kotlin.srcDir("src/testFixtures/kotlin") } }

dependencies {
    api(libs.kotlinx.serialization.json) // its types stand in the records that app reads
    testImplementation(libs.abi.tools) // dumps the public interface
    testImplementation(libs.junit)
}

// gradle :text:publishToMavenLocal, as mvn install does.
publishing {
    publications {
        create<MavenPublication>("library") {
            from(components["java"])
            groupId = "io.github.tfdistill"
            artifactId = "text"
            version = libs.versions.library.get()
            pom {
                name = "tfdistill text"
                description =
                    "Tokenizes texts, checks bundles of tfdistill and reads answers off their models' outputs"
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
