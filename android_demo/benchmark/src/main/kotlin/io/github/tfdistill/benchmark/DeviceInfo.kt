package io.github.tfdistill.benchmark

import android.annotation.SuppressLint
import android.app.ActivityManager
import android.content.Context
import android.content.pm.ApplicationInfo
import android.os.Build

/** What this device and this app are, as far as an app may know. */
object DeviceInfo {
    /** System properties of emulators and how their values begin: EMULATOR_SIGNS of the harness. */
    private val EMULATOR_SIGNS =
        mapOf(
            "ro.kernel.qemu" to listOf("1"),
            "ro.boot.qemu" to listOf("1"),
            "ro.hardware" to listOf("goldfish", "ranchu", "cutf", "vsoc", "vbox86"),
            "ro.boot.hardware" to listOf("goldfish", "ranchu", "cutf", "vsoc", "vbox86"),
            "ro.product.device" to listOf("goldfish", "ranchu", "cutf", "vsoc", "vbox86", "emu64"),
            "ro.product.name" to listOf("sdk_", "aosp_cf_", "cf_", "vbox86"),
            "ro.build.fingerprint" to listOf("generic"),
        )

    /** Whether this is a phone or an emulator: their figures are never compared. */
    fun kind(property: (name: String) -> String = ::systemProperty): String {
        val emulated =
            EMULATOR_SIGNS.any { (name, starts) -> starts.any { property(name).startsWith(it) } }
        return if (emulated) BenchmarkResult.EMULATOR else BenchmarkResult.PHONE
    }

    /** A system property as `getprop` prints it; empty where an app may not read it. */
    @SuppressLint("PrivateApi") // Build has only some of them
    private fun systemProperty(name: String): String =
        runCatching {
                Class.forName("android.os.SystemProperties")
                    .getMethod("get", String::class.java)
                    .invoke(null, name) as String
            }
            .getOrDefault("")

    fun device(context: Context): Device {
        val memory = ActivityManager.MemoryInfo()
        checkNotNull(context.getSystemService(ActivityManager::class.java)).getMemoryInfo(memory)
        return Device(
            name = "${Build.MANUFACTURER} ${Build.MODEL}",
            fingerprint = Build.FINGERPRINT,
            soc =
                if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) {
                    "${Build.SOC_MANUFACTURER} ${Build.SOC_MODEL}"
                } else {
                    null
                },
            abi = Build.SUPPORTED_ABIS.firstOrNull(),
            os = "Android ${Build.VERSION.RELEASE} (API ${Build.VERSION.SDK_INT})",
            kernel = System.getProperty("os.version")?.let { "Linux $it" },
            coresLogical = java.lang.Runtime.getRuntime().availableProcessors(),
            maxFrequenciesMhz = AndroidProbe.frequencies("cpuinfo_max_freq"),
            memoryBytes = memory.totalMem,
        )
    }

    /** This app; [version] is that of the library that runs models. */
    fun runtime(context: Context, version: String?): Runtime {
        val info = context.packageManager.getPackageInfo(context.packageName, 0)
        val debuggable = context.applicationInfo.flags and ApplicationInfo.FLAG_DEBUGGABLE != 0
        return Runtime(
            name = context.packageName,
            version = info.versionName,
            build = if (debuggable) "debug" else "release",
            packages = mapOf("litert" to version),
        )
    }
}
