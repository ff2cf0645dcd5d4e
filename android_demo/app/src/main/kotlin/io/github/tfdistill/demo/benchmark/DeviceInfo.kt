package io.github.tfdistill.demo.benchmark

import android.app.ActivityManager
import android.content.Context
import android.content.pm.ApplicationInfo
import android.os.Build
import io.github.tfdistill.demo.core.BenchmarkResult
import io.github.tfdistill.demo.core.Device
import io.github.tfdistill.demo.core.Runtime

/** What this device and this app are, as far as an app may know. */
object DeviceInfo {
    /** Whether this is a phone or an emulator: their figures are never compared. */
    fun kind(): String {
        val emulated =
            Build.HARDWARE in setOf("goldfish", "ranchu", "cutf_cvm") ||
                Build.FINGERPRINT.startsWith("generic") ||
                Build.PRODUCT.startsWith("sdk_gphone")
        return if (emulated) BenchmarkResult.EMULATOR else BenchmarkResult.PHONE
    }

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
