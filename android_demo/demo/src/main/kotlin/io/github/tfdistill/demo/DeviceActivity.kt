package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import android.widget.TextView
import io.github.tfdistill.benchmark.AndroidProbe
import io.github.tfdistill.benchmark.DeviceInfo

/** What a benchmark on this device stands on. */
class DeviceActivity : Activity() {
    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        showLayout(R.layout.device)
        actionBar?.setDisplayHomeAsUpEnabled(true)
    }

    /** Heat and clocks change: they are asked for each time that the page is shown. */
    override fun onStart() {
        super.onStart()
        val services = (application as DemoApplication).services
        services.worker.execute {
            val version = runCatching(services.runtimeVersion).getOrNull()
            val runtime = DeviceInfo.runtime(applicationContext, version)
            val device = DeviceInfo.device(applicationContext)
            val now = AndroidProbe(applicationContext).use { it.conditions() }
            val text = resources.facts(device, runtime, now)
            runOnUiThread { view<TextView>(R.id.facts).text = text }
        }
    }
}
