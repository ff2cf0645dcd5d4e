package io.github.tfdistill.demo

import android.app.Activity
import android.content.Intent
import android.widget.Button
import android.widget.EditText
import android.widget.TextView
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import java.io.File
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemClock

/** The screens in the classes of Android 8, which has no thermal status and tells no processor. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26])
class OldestAndroidTest {
    private val worker = Later()
    private val models = FakeModels()
    private val application = RuntimeEnvironment.getApplication() as DemoApplication

    init {
        application.services = Services(Toys, models, worker)
        models.during = { ShadowSystemClock.advanceBy(Duration.ofMillis(20)) }
    }

    private fun <T : Activity> start(screen: Class<T>, intent: Intent? = null): T =
        Robolectric.buildActivity(screen, intent).setup().get().also { worker.runAll() }

    private fun Activity.shown(id: Int) = find<TextView>(id).text.toString()

    @Test
    fun `a text is answered`() {
        val screen = start(MainActivity::class.java)
        screen.find<EditText>(R.id.first).setText(Golden("pairs-float32").examples[0].text)
        screen.find<Button>(R.id.run).performClick()
        worker.runAll()
        assertTrue("[CLS]" in screen.shown(R.id.tokens))
    }

    @Test
    fun `two models are compared`() {
        val screen = start(CompareActivity::class.java)
        screen.find<EditText>(R.id.first).setText("who knows this text")
        screen.find<Button>(R.id.run).performClick()
        worker.runAll()
        assertTrue("those of a golden example" in screen.shown(R.id.answer))
    }

    @Test
    fun `it measures, and says nothing of heat`() {
        val screen = start(MeasureActivity::class.java)
        screen.find<Button>(R.id.start).performClick()
        worker.runAll()
        assertEquals("Done: pairs-float32", screen.shown(R.id.state))
        val states = application.measure.state.result?.measurements.orEmpty().map { it.after }
        assertEquals(6, states.size)
        for (state in states) assertNull(state?.thermalStatus)
    }

    @Test
    fun `adb's benchmark leaves a result`() {
        val intent = Intent().putExtra("run_id", "old").putExtra("bundle", "pairs-float32")
        start(BenchmarkActivity::class.java, intent)
        val file = File(application.getExternalFilesDir(null), "benchmark/old.json")
        val found = BenchmarkResult.read(file.readText())
        assertEquals("Android 8.0.0 (API 26)", found.device.os)
        assertNull(found.device.soc)
    }

    @Test
    fun `the device page says what is not known`() {
        val facts = start(DeviceActivity::class.java).shown(R.id.facts)
        assertTrue(facts, "Processor: not told to apps" in facts)
        assertTrue(facts, "Thermal status: not told to apps" in facts)
    }
}
