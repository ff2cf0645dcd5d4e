package io.github.tfdistill.demo

import android.view.View
import android.widget.Button
import android.widget.Spinner
import android.widget.Switch
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Accelerator.CPU
import io.github.tfdistill.benchmark.Accelerator.GPU
import io.github.tfdistill.benchmark.AcceleratorException
import io.github.tfdistill.benchmark.GpuRecord
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.EditedToys
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

/** The GPU on the main screen: nobody gets there without a comparison, and everything ends it. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class MainGpuTest : ScreenTest() {
    private val pairs = Bundles(Toys).open("pairs-float32")
    private val golden = Golden("pairs-float32").examples[0]

    /** How many answers a comparison of the first bundle compares. */
    private val compared = 24

    /** The screen in a new process, as far as models and what they stand on go. */
    private fun start(source: FileSource = Toys): MainActivity {
        begin(source, version = "2.1.6")
        val screen = Robolectric.buildActivity(MainActivity::class.java).setup().get()
        worker.runAll()
        return screen
    }

    /** The pairs with a file of their own for a device: the same bytes under another name. */
    private fun withVariant(device: String): FileSource {
        val edited =
            EditedToys("bundles/pairs-float32/model.json") { card ->
                val whole = Json.parseToJsonElement(card).jsonObject
                val keys = listOf("model", "quantization", "signatures", "golden_file", "parity")
                val values = keys.joinToString { "\"$it\": ${whole.getValue(it)}" }
                val variant = values.replace("model.tflite", "model-$device.tflite")
                card.trimEnd().removeSuffix("}") + ", \"variants\": {\"$device\": {$variant}}}"
            }
        return FileSource { edited.open(it.replace("model-$device", "model")) }
    }

    private fun MainActivity.note() = shown(R.id.gpu_note)

    private fun MainActivity.switch(): Boolean {
        find<Switch>(R.id.gpu).performClick()
        worker.runAll()
        return find<Switch>(R.id.gpu).isChecked
    }

    private fun MainActivity.answer(): String {
        enter(R.id.first, golden.text)
        press(R.id.run)
        return shown(R.id.details)
    }

    private fun assertOnCpu(screen: MainActivity) {
        assertFalse(screen.find<Switch>(R.id.gpu).isChecked)
        val message = screen.answer()
        assertTrue(message, "Computed on the CPU" in message)
        assertEquals(CPU, models.openedOn.last())
        assertFalse(application.gpu.isOn(pairs))
    }

    @Test
    fun `nobody who does not ask for it gets the GPU`() {
        val screen = start()
        assertEquals(View.GONE, screen.find<View>(R.id.gpu_note).visibility)
        assertOnCpu(screen)
        assertEquals(setOf(CPU), models.openedOn.toSet())
    }

    @Test
    fun `all golden answers are compared before the first text, and once`() {
        val screen = start()
        assertTrue(screen.switch())
        assertEquals(compared, models.runs)
        assertTrue(screen.note(), "$compared compared, largest error 0.00 %" in screen.note())
        assertTrue("Computed on the GPU" in screen.answer())
        assertEquals(compared + 1, models.runs)
        assertEquals(listOf(CPU, GPU), models.openedOn) // compared and used: opened once
        assertEquals(1, models.mostOpen)

        assertFalse(screen.switch())
        assertTrue("Computed on the CPU" in screen.answer())
        assertTrue(screen.switch())
        assertEquals(compared + 2, models.runs) // the pass still counts
        val again = start()
        assertTrue(again.find<Switch>(R.id.gpu).isChecked)
        assertTrue("Computed on the GPU" in again.answer())
        assertEquals(compared + 3, models.runs)
        again.find<Spinner>(R.id.bundles).setSelection(2) // another model is another question
        worker.runAll()
        assertFalse(again.find<Switch>(R.id.gpu).isChecked)
        assertEquals(CPU, models.openedOn.last())
    }

    @Test
    fun `the GPU runs the file that is for it, and the CPU stays with its own`() {
        val screen = start(withVariant("gpu"))
        assertTrue(screen.switch())
        assertTrue("Computed on the GPU" in screen.answer())
        assertEquals(listOf("model.tflite", "model-gpu.tflite"), models.openedFiles)
        models.openingOnGpu = { throw AcceleratorException("no device") }
        assertFalse(screen.switch())
        assertOnCpu(screen)
        assertEquals("model.tflite", models.openedFiles.last())
    }

    @Test
    fun `a part that the CPU computes is said to be`() {
        models.gpuShares = true
        val screen = start()
        assertTrue(screen.switch())
        val message = screen.answer()
        assertTrue(message, "Computed on the GPU, and on the CPU what the GPU does not" in message)
    }

    @Test
    fun `answers that differ keep the model on the CPU, and the screen says by how much`() {
        models.onGpu = { 1.1f * it }
        val screen = start()
        assertFalse(screen.switch())
        assertTrue(screen.note(), screen.note().startsWith("The GPU answers differently"))
        assertTrue(screen.note(), "(allowed: 2.00 %), another label for 0 of 24" in screen.note())
        assertEquals(0, models.open)
        assertOnCpu(screen)
        models.onGpu = { 1 - it }
        assertFalse(screen.switch())
        assertTrue(screen.note(), "another label for 24 of 24. Such as:" in screen.note())
        assertOnCpu(start())
    }

    @Test
    fun `an answer that is no number keeps the model on the CPU`() {
        models.onGpu = { Float.NaN }
        val screen = start()
        assertFalse(screen.switch())
        assertTrue(screen.note(), "a finite number" in screen.note())
        assertOnCpu(screen)
    }

    @Test
    fun `a GPU that is not there or does not take the model is refused with the reason`() {
        models.openingOnGpu = { throw AcceleratorException("Some ops are not accelerated.") }
        val screen = start()
        assertFalse(screen.switch())
        val message = "The GPU cannot be used with this model: Some ops are not accelerated."
        assertTrue(screen.note(), screen.note().startsWith(message))
        assertOnCpu(screen)
        assertFalse(application.gpu.hasEnded(pairs))
    }

    @Test
    fun `stopping a comparison leaves the model where it was`() {
        val screen = start()
        for (stop in listOf(R.id.stop, R.id.gpu)) {
            val begin = models.runs
            models.during = {
                if (models.runs == begin + 5) {
                    val shown = screen.find<View>(R.id.stop).visibility
                    assertEquals(View.VISIBLE, shown)
                    screen.find<Button>(stop).performClick()
                }
            }
            assertFalse(screen.switch())
            assertEquals(begin + 5, models.runs)
            assertEquals(0, models.open)
            assertTrue(screen.note(), screen.note().startsWith("The comparison was stopped"))
        }
        models.during = {}
        assertOnCpu(screen)
    }

    @Test
    fun `a text that is asked during a comparison is answered on the CPU`() {
        val screen = start()
        models.during = {
            if (models.runs == 5) {
                screen.enter(R.id.first, golden.text)
                screen.find<Button>(R.id.run).performClick()
            }
        }
        assertFalse(screen.switch())
        assertEquals(6, models.runs)
        assertTrue("Computed on the CPU" in screen.shown(R.id.details))
        assertFalse(application.gpu.isOn(pairs))
    }

    @Test
    fun `a GPU that fails later is left, and has to be compared again`() {
        val screen = start()
        assertTrue(screen.switch())
        models.during = { throw AcceleratorException("lost the device") }
        screen.answer()
        assertTrue(screen.shown(R.id.answer), "lost the device" in screen.shown(R.id.answer))
        assertTrue(screen.note(), "lost the device" in screen.note())
        models.during = {}
        assertOnCpu(screen)
        assertEquals(0, models.open - 1)
        val before = models.runs
        assertTrue(screen.switch())
        assertEquals(before + compared, models.runs)
    }

    @Test
    fun `a GPU that does not open at the start is left for the CPU, and the screen says so`() {
        assertTrue(start().switch())
        models.openingOnGpu = { throw AcceleratorException("no device") }
        val screen = start()
        assertTrue(screen.note(), "no device" in screen.note())
        assertOnCpu(screen)
        assertEquals(View.GONE, screen.find<View>(R.id.fault).visibility)
    }

    @Test
    fun `after the app ended on the GPU nothing tries again by itself`() {
        assertTrue(start().switch())
        val tries = models.openedOn.count { it == GPU }
        var next: GpuRecord? = null
        application.gpu.during(pairs) { next = GpuRecord(application) { "2.1.6" } }
        assertTrue(checkNotNull(next).hasEnded(pairs))
        val screen = start()
        assertTrue(screen.note(), screen.note().startsWith("The app ended while this model ran"))
        assertOnCpu(screen)
        assertEquals(tries, models.openedOn.count { it == GPU })
        assertTrue(screen.switch()) // the user may
        assertFalse(application.gpu.hasEnded(pairs))
    }

    @Test
    fun `each use of the GPU is marked, and nothing else`() {
        val marks = ArrayList<Pair<Accelerator, Boolean>>()
        val preferences = application.getSharedPreferences("gpu", 0)
        fun look() = marks.add(models.openedOn.last() to preferences.contains("trying"))
        models.during = ::look
        models.openingOnGpu = ::look
        val screen = start()
        screen.answer()
        screen.switch()
        screen.answer()
        assertEquals(1 + 1 + compared + 1, marks.size)
        for ((on, marked) in marks) assertEquals(on == GPU, marked)
        assertFalse(preferences.contains("trying"))
    }

    @Test
    fun `the GPU runs the file that is for it`() {
        val screen = start(withVariant("gpu"))
        assertTrue(screen.switch())
        assertEquals("model-gpu.tflite", models.openedFiles.last())
        assertTrue("Computed on the GPU" in screen.answer())
        assertFalse(screen.switch())
        assertTrue("Computed on the CPU" in screen.answer())
        assertEquals("model.tflite", models.openedFiles.last())
    }

    @Test
    fun `a bundle of an earlier version with a file for an NPU runs that for the CPU`() {
        val screen = start(withVariant("npu"))
        assertTrue("Computed on the CPU" in screen.answer())
        assertTrue(screen.switch())
        assertEquals(setOf("model.tflite"), models.openedFiles.toSet())
    }
}
