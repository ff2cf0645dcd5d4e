package io.github.tfdistill.demo

import android.app.Activity
import android.content.Intent
import android.os.PowerManager
import android.view.WindowManager
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.BenchmarkState
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import java.io.File
import java.time.Duration
import kotlinx.serialization.json.Json
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemClock

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class BenchmarkActivityTest : ScreenTest() {
    private val folder = File(application.getExternalFilesDir(null), "benchmark")

    /** What `am start` of the harness sends. */
    private val intent =
        Intent(application, BenchmarkActivity::class.java)
            .putExtra("run_id", "run-1")
            .putExtra("bundle", "pairs-float32")
            .putExtra("lengths", "16,24")
            .putExtra("threads", "1,2")
            .putExtra("accelerator", "cpu")
            .putExtra("warmup", 2)
            .putExtra("runs", 6)
            .putExtra("min_seconds", 0f)
            .putExtra("max_runs", 10)
            .putExtra("repetitions", 2)
            .putExtra("rounds", 3)
            .putExtra("cool_down_seconds", 0f)
            .putExtra("sustained_seconds", 0f)
            .putExtra("seed", 1)

    init {
        begin(version = "9.9")
        models.during = { ShadowSystemClock.advanceBy(Duration.ofNanos(1_500_000)) }
    }

    private fun start(intent: Intent = this.intent) =
        Robolectric.buildActivity(BenchmarkActivity::class.java, intent).setup()

    private fun state(id: String = "run-1"): BenchmarkState =
        Json.decodeFromString(File(folder, "$id.state.json").readText())

    private fun Activity.shown(): String = shown(R.id.state)

    @Test
    fun `the harness finds the result where it looks for it`() {
        val screen = start().get()
        worker.runAll()
        assertEquals(BenchmarkState(1, "done", 8, 8, null), state())
        assertTrue(screen.shown().startsWith("Done"))
        val awake = WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON
        assertEquals(awake, screen.window.attributes.flags and awake)
        val content = File(folder, "run-1.json").readText()
        val result = BenchmarkResult.read(content)
        val rows = result.measurements
        assertEquals(
            8,
            rows.map { Triple(it.sequenceLength, it.threads, it.repetition) }.toSet().size,
        )
        assertTrue(
            rows.all {
                it.samplesMs == List(6) { 1.5 } && it.warmupMs.size == 2 && it.blockRuns == 2
            }
        )
        assertEquals(1, rows.count { it.processStartMs != null })
        assertEquals("app", result.backend)
        assertEquals("io.github.tfdistill.demo", result.runtime.name)
        assertEquals("9.9", result.runtime.packages["litert"])
        assertEquals("Android 15 (API 35)", result.device.os)
        assertEquals("pairs-float32/model.tflite", result.models.single().file)
        assertEquals(setOf("run-1.json", "run-1.state.json"), folder.list()?.toSet())
        assertEquals(0, models.open)
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(it, "app.json").writeText(content) }
    }

    @Test
    fun `what is out of bounds is refused under its run id`() {
        val screen = start(Intent(intent).putExtra("runs", 0).putExtra("rounds", "x")).get()
        worker.runAll()
        val failed = state()
        assertEquals("failed", failed.state)
        assertTrue(failed.error, listOf("runs", "rounds").all { it in failed.error.orEmpty() })
        assertTrue(screen.shown().startsWith("Nothing was measured"))
        assertFalse(File(folder, "run-1.json").exists())
    }

    @Test
    fun `a run id that is no file name leaves no file`() {
        start(Intent(intent).putExtra("run_id", "../../outside"))
        start(Intent(application, BenchmarkActivity::class.java))
        worker.runAll()
        assertTrue(folder.list().isNullOrEmpty())
        assertFalse(File(folder.parentFile?.parentFile, "outside.state.json").exists())
    }

    @Test
    fun `a bundle that is not there is a failure that names those that are`() {
        start(Intent(intent).putExtra("bundle", "other"))
        worker.runAll()
        assertTrue(state().error, "tags-float32" in state().error.orEmpty())
    }

    @Test
    fun `heat during the run is told, also when it passes`() {
        val power = shadowOf(application.getSystemService(PowerManager::class.java))
        val runs = Intent(intent).putExtra("lengths", "16").putExtra("threads", "1")
        models.during = {
            if (models.runs == 5) {
                power.setCurrentThermalStatus(PowerManager.THERMAL_STATUS_MODERATE)
                power.setCurrentThermalStatus(PowerManager.THERMAL_STATUS_NONE)
            }
        }
        start(runs)
        worker.runAll()
        val result = BenchmarkResult.read(File(folder, "run-1.json").readText())
        val told = result.measurements.map { it.before?.thermalStatus to it.after?.thermalStatus }
        assertEquals(listOf(0 to 2, 0 to 0), told)
        assertEquals(listOf("The device throttled: thermal status 2."), result.notes)
    }

    @Test
    fun `a benchmark that leaves the foreground while it measures fails with the reason`() {
        val controller = start()
        models.during = {
            if (models.runs == 20) {
                controller.pause()
                assertEquals("running", state().state) // a dialog in front of it is not the end
                controller.stop()
            }
        }
        worker.runAll()
        assertEquals("failed", state().state)
        assertTrue(state().error, "received onStop while it measured" in state().error.orEmpty())
        assertEquals(20, models.runs)
        assertEquals(0, models.open)
        assertFalse(File(folder, "run-1.json").exists())
    }

    @Test
    fun `a result whose last inference ran in the background is not written`() {
        start()
        worker.runAll()
        val last = models.runs
        val controller = start(Intent(intent).putExtra("run_id", "run-2"))
        models.during = { if (models.runs == 2 * last) controller.pause().stop() }
        worker.runAll()
        assertEquals(2 * last, models.runs)
        assertEquals("failed", state("run-2").state)
        assertFalse(File(folder, "run-2.json").exists())
    }

    @Test
    fun `a finished benchmark stays done when the screen is left`() {
        val controller = start()
        worker.runAll()
        controller.pause().stop().destroy()
        assertEquals("done", state().state)
    }

    @Test
    fun `a change of the configuration ends the benchmark under its own reason`() {
        val controller = start()
        controller.recreate()
        worker.runAll()
        assertEquals("failed", state().state)
        assertTrue(state().error, "received onDestroy" in state().error.orEmpty())
        assertEquals(0, models.runs)
    }

    @Test
    fun `a screen that Android brings back measures nothing`() {
        val controller = start()
        worker.runAll()
        val before = models.runs
        controller.recreate()
        worker.runAll()
        assertEquals(before, models.runs)
        assertTrue(controller.get().shown().startsWith("This benchmark is over"))
    }

    @Test
    fun `storage that is full is a failure and no crash`() {
        folder.parentFile?.mkdirs()
        folder.writeText("no folder") // nothing can be written below it
        val screen = start().get()
        worker.runAll()
        assertTrue(screen.shown(), screen.shown().startsWith("Nothing was measured"))
        assertNull(folder.list())
    }

    private val onGpu = Intent(intent).putExtra("accelerator", "gpu")

    private fun marks() = application.getSharedPreferences("gpu", 0).all.keys

    @Test
    fun `the GPU is measured after a comparison, whose start is no cold one`() {
        start(onGpu)
        worker.runAll()
        assertEquals(BenchmarkState(1, "done", 8, 8, null), state())
        val result = BenchmarkResult.read(File(folder, "run-1.json").readText())
        assertEquals(setOf(Accelerator.GPU), models.openedOn.toSet())
        assertEquals(setOf("gpu"), result.measurements.map { it.delegate }.toSet())
        assertTrue(result.measurements.all { it.processStartMs == null && it.coldStartMs == null })
        assertEquals(4, result.answers.count { it.delegate == "gpu" && it.maxAbsError == 0.0 })
        assertTrue("24 golden answers were compared on the GPU first" in result.notes.single())
        assertTrue(marks().isEmpty()) // the comparison of a benchmark switches nothing on
        assertEquals(1, models.mostOpen)
    }

    @Test
    fun `a GPU that answers differently fails with the reason, and nothing is measured`() {
        models.onGpu = { 1.2f * it }
        start(onGpu)
        worker.runAll()
        assertEquals("failed", state().state)
        val message = state().error.orEmpty()
        assertTrue(
            message,
            "answers of pairs-float32 on this device: expected an error / rms" in message,
        )
        assertFalse(File(folder, "run-1.json").exists())
        assertEquals(24, models.runs)
        assertEquals(listOf(Accelerator.GPU), models.openedOn)
        assertTrue(marks().isEmpty())
    }

    @Test
    fun `a process that ends on the GPU leaves its mark behind`() {
        models.during = {
            if (models.runs == 3) assertEquals(setOf("trying"), marks())
            if (models.runs == 40) assertEquals(setOf("trying"), marks()) // it measures by now
        }
        models.gpuShares = true
        start(onGpu)
        worker.runAll()
        val notes = BenchmarkResult.read(File(folder, "run-1.json").readText()).notes
        assertTrue("$notes", notes.last().startsWith("The CPU computed the part"))
        assertTrue(state().error, models.runs > 40 && state().state == "done")
    }

    @Test
    fun `without a GPU it fails with the reason, and is not measured on the CPU instead`() {
        application.services = Services(Toys, AssetModels(application), worker)
        start(onGpu)
        worker.runAll()
        assertEquals("failed", state().state)
        assertTrue(state().error, "model.tflite on the GPU: " in state().error.orEmpty())
        assertFalse(File(folder, "run-1.json").exists())
    }
}
