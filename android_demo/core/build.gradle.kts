import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    `java-library`
    alias(libs.plugins.kotlin.jvm)
    alias(libs.plugins.kotlin.serialization)
}

// No toolchain: whatever JDK Android Studio runs on, 17 or later, compiles for 17.
java {
    sourceCompatibility = JavaVersion.VERSION_17
    targetCompatibility = JavaVersion.VERSION_17
}

kotlin {
    compilerOptions {
        jvmTarget = JvmTarget.JVM_17
        freeCompilerArgs.add("-Xjdk-release=17") // methods of a later JDK are not on phones
        allWarningsAsErrors = true
    }
}

dependencies {
    api(libs.kotlinx.serialization.json) // its types stand in the records that app reads
    testImplementation(libs.junit)
}
