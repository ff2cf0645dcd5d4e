package io.github.tfdistill.demo

import android.os.Bundle
import android.os.Handler
import android.os.Looper
import androidx.test.platform.app.InstrumentationRegistry
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import java.io.File
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowChoreographer
import org.robolectric.shadows.ShadowSystemClock

/** The test for device farms, as far as it runs without a device. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class FarmBenchmarkTest {
    private val application = RuntimeEnvironment.getApplication() as DemoApplication
    private val folder = File(application.getExternalFilesDir(null), "benchmark")
    private val models = FakeModels()

    private fun measure(vararg arguments: Pair<String, String>) {
        application.services = Services(Toys, models, runtimeVersion = ::version)
        val bundle = Bundle()
        for ((key, value) in arguments) bundle.putString(key, value)
        InstrumentationRegistry.registerInstance(
            InstrumentationRegistry.getInstrumentation(),
            bundle,
        )
        FarmBenchmark().measuresEachBundle()
    }

    /**
     * Asked by the worker after the last inference: a frame that waits for the clock would hold
     * back what the worker tells the main thread from then on.
     */
    private fun version(): String {
        ShadowChoreographer.setPaused(false)
        ShadowSystemClock.advanceBy(Duration.ofSeconds(1))
        return "9.9"
    }

    private fun result(number: Int) =
        BenchmarkResult.read(File(folder, "farm-$number.json").readText())

    private val short = arrayOf("runs" to "6", "rounds" to "3", "min_seconds" to "0", "seed" to "3")

    @Test
    fun `each bundle leaves a result where farms collect files`() {
        models.answersAll = true
        models.during = {
            ShadowChoreographer.setPaused(true) // else a frame that is drawn turns the clock
            ShadowSystemClock.advanceBy(Duration.ofNanos(1_500_000))
        }
        measure(
            *short,
            *arrayOf("repetitions" to "2", "threads" to "1,2", "warmup" to "2"),
            "class" to "io.github.tfdistill.demo.FarmBenchmark",
        )
        val results = List(4, ::result)
        assertEquals(
            listOf("pairs", "spans", "tags", "vectors").map { "$it-float32" },
            results.map { it.models.single().name },
        )
        assertEquals(List(4) { "farm-$it.json" }, folder.list()?.sorted())
        for (result in results) {
            val rows = result.measurements
            assertEquals(emptyList<Any>(), result.failures)
            assertEquals(
                8,
                rows.map { Triple(it.sequenceLength, it.threads, it.repetition) }.toSet().size,
            )
            assertTrue(rows.all { it.samplesMs == List(6) { 1.5 } && it.warmupMs.size == 2 })
            assertEquals(setOf(2), rows.map { it.blockRuns }.toSet())
        }
        val (first) = results
        assertEquals("app" to "9.9", first.backend to first.runtime.packages["litert"])
        assertEquals("pairs-float32/model.tflite", first.models.single().file)
        assertEquals(0, models.open)
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(folder, "farm-0.json").copyTo(File(it, "farm.json"), overwrite = true) }
    }

    @Test
    fun `what cannot be measured fails the test with the reason`() {
        for ((key, value) in listOf("runs" to "many", "bundle" to "pairs-float16")) {
            val error =
                assertThrows(AssertionError::class.java) {
                    measure("bundle" to "pairs-float32", key to value)
                }
            val message = error.message.orEmpty()
            assertTrue(message, "$key: expected" in message || "pairs-float32" in message)
        }
        assertNull(folder.list())
    }

    @Test
    fun `a phone on which another app comes to the front fails the test`() {
        models.during = {
            if (models.runs == 20) {
                val main = Handler(Looper.getMainLooper())
                main.post { application.screens.measure.stop() } // as the screen does
            }
        }
        val error =
            assertThrows(AssertionError::class.java) { measure("bundle" to "pairs-float32") }
        assertTrue("$error", "app in the foreground: expected" in error.message.orEmpty())
        assertNull(folder.list())
    }
}
