package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.benchmark.Conditions
import io.github.tfdistill.benchmark.Device
import io.github.tfdistill.benchmark.Runtime

/** The device page. */
object DeviceWording {
    private const val GIGABYTE = 1e9

    /** A line for each fact; what Android does not tell an app is said to be unknown. */
    fun of(resources: Resources, device: Device, runtime: Runtime, now: Conditions): String {
        val unknown = resources.getString(R.string.unknown_fact)
        fun line(title: Int, value: String?) =
            "${resources.getString(title)}: ${value?.ifEmpty { null } ?: unknown}"
        fun clocks(mhz: List<Double>) = mhz.joinToString(" ") { "%.0f".format(it) }
        val status =
            now.thermalStatus?.let { resources.getStringArray(R.array.thermal).getOrNull(it) }
        return listOf(
                line(R.string.device_name, device.name),
                line(R.string.soc, device.soc),
                line(R.string.system, device.os),
                line(R.string.kernel, device.kernel),
                line(R.string.abi, device.abi),
                line(R.string.cores, device.coresLogical?.toString()),
                line(R.string.highest_clocks, clocks(device.maxFrequenciesMhz)),
                line(R.string.clocks_now, clocks(now.frequenciesMhz)),
                line(R.string.device_memory, device.memoryBytes?.let { gigabytes(resources, it) }),
                line(R.string.heat, status),
                line(
                    R.string.battery,
                    now.batteryPercent?.let { resources.getString(R.string.percent, it) },
                ),
                line(
                    R.string.battery_temperature,
                    now.batteryTemperatureC?.let { resources.getString(R.string.celsius, it) },
                ),
                line(R.string.runtime, runtime.packages["litert"]),
                line(R.string.app, listOfNotNull(runtime.version, runtime.build).joinToString(" ")),
            )
            .joinToString("\n\n") + "\n\n" + resources.getString(R.string.gpu_note)
    }

    private fun gigabytes(resources: Resources, bytes: Long) =
        resources.getString(R.string.gigabytes, bytes / GIGABYTE)
}
