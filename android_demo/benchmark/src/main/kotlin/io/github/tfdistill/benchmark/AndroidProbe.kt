package io.github.tfdistill.benchmark

import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.os.BatteryManager
import android.os.Build
import android.os.PowerManager
import android.os.SystemClock
import java.io.File
import java.io.IOException
import java.time.OffsetDateTime
import java.time.temporal.ChronoUnit

/**
 * Asks Android and Linux what an app may know; what is not told is null.
 *
 * @property heat is told each change of the thermal status until the probe is closed
 */
class AndroidProbe(private val context: Context, private val heat: (status: Int) -> Unit = {}) :
    Probe, AutoCloseable {
    private val power = checkNotNull(context.getSystemService(PowerManager::class.java))
    private var worst: Int? = null
    private val listener: PowerManager.OnThermalStatusChangedListener? = listen()

    private fun listen(): PowerManager.OnThermalStatusChangedListener? {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return null
        val added = PowerManager.OnThermalStatusChangedListener(::heard)
        return try {
            power.addThermalStatusListener(added)
            added
        } catch (_: RuntimeException) {
            null // this device has no such service; the status can still be asked for
        }
    }

    /** The thermal status may rise and fall again between two questions. */
    private fun heard(status: Int) {
        synchronized(this) { worst = maxOf(worst ?: status, status) }
        heat(status)
    }

    @Synchronized
    private fun thermalStatus(): Int? {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return null
        val now = power.currentThermalStatus
        return maxOf(worst ?: now, now).also { worst = null }
    }

    override fun now(): String = OffsetDateTime.now().truncatedTo(ChronoUnit.SECONDS).toString()

    override fun nanoTime(): Long = SystemClock.elapsedRealtimeNanos()

    override fun conditions(): Conditions {
        val battery = context.registerReceiver(null, IntentFilter(Intent.ACTION_BATTERY_CHANGED))
        fun value(name: String) = battery?.getIntExtra(name, -1)?.takeIf { it >= 0 }
        val level = value(BatteryManager.EXTRA_LEVEL)
        val scale = value(BatteryManager.EXTRA_SCALE)?.takeIf { it > 0 }
        return Conditions(
            time = now(),
            thermalStatus = thermalStatus(),
            batteryPercent = if (level == null || scale == null) null else 100.0 * level / scale,
            batteryTemperatureC = value(BatteryManager.EXTRA_TEMPERATURE)?.let { it / 10.0 },
            charging = value(BatteryManager.EXTRA_PLUGGED)?.let { it != 0 },
            frequenciesMhz = frequencies("scaling_cur_freq"),
        )
    }

    override fun residentBytes(): Long? = status("VmRSS")

    override fun peakResidentBytes(): Long? = status("VmHWM")

    override fun sleep(seconds: Double) = Thread.sleep((1000 * seconds).toLong())

    override fun close() {
        if (listener != null && Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            power.removeThermalStatusListener(listener)
        }
    }

    companion object {
        private val SPACES = Regex("\\s+")

        /** The clock of each core in MHz; empty if one is not told. */
        fun frequencies(name: String): List<Double> {
            val cores = java.lang.Runtime.getRuntime().availableProcessors()
            val clocks =
                (0 until cores).mapNotNull {
                    read("/sys/devices/system/cpu/cpu$it/cpufreq/$name")?.trim()?.toDoubleOrNull()
                }
            return if (clocks.size == cores) clocks.map { it / 1000 } else emptyList()
        }

        /** A line of /proc/self/status that is in kB. */
        private fun status(name: String): Long? =
            read("/proc/self/status")
                ?.lineSequence()
                ?.firstOrNull { it.startsWith("$name:") }
                ?.split(SPACES)
                ?.getOrNull(1)
                ?.toLongOrNull()
                ?.times(1024)

        private fun read(path: String): String? =
            try {
                File(path).readText()
            } catch (_: IOException) {
                null // an app may not read it on this device
            }
    }
}
