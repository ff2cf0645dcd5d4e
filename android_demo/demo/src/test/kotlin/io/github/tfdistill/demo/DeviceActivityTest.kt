package io.github.tfdistill.demo

import android.content.Intent
import android.os.BatteryManager
import android.os.PowerManager
import android.widget.TextView
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class DeviceActivityTest : ScreenTest() {
    private fun facts(version: () -> String?): List<String> {
        application.services = Services(Toys, FakeModels(), worker, version)
        val screen = Robolectric.buildActivity(DeviceActivity::class.java).setup().get()
        worker.runAll()
        return screen.find<TextView>(R.id.facts).text.split("\n\n")
    }

    @Test
    fun `the page says what a benchmark stands on`() {
        shadowOf(application.getSystemService(PowerManager::class.java))
            .setCurrentThermalStatus(PowerManager.THERMAL_STATUS_MODERATE)
        val battery =
            Intent(Intent.ACTION_BATTERY_CHANGED)
                .putExtra(BatteryManager.EXTRA_LEVEL, 30)
                .putExtra(BatteryManager.EXTRA_SCALE, 40)
                .putExtra(BatteryManager.EXTRA_TEMPERATURE, 315)
        @Suppress("DEPRECATION") // how a battery tells its state
        application.sendStickyBroadcast(battery)
        val message = facts { "2.1.6" }
        val expected =
            listOf(
                "System: Android 15 (API 35)",
                "Thermal status: moderate",
                "Battery: 75.0 %",
                "Battery temperature: 31.5 °C",
                "LiteRT: 2.1.6",
            )
        assertTrue("$message", message.containsAll(expected))
        assertTrue("can switch a model to the GPU" in message.last())
    }

    @Test
    fun `what is not known is said to be unknown, also a library that is missing`() {
        val message = facts { throw UnsatisfiedLinkError("no tensorflowlite_jni") }
        assertTrue("$message", "LiteRT: not told to apps" in message)
        assertTrue("$message", "Battery: not told to apps" in message)
    }
}
