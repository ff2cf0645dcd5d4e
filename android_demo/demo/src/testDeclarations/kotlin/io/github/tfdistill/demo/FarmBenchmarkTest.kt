package io.github.tfdistill.demo

import android.os.Bundle
import androidx.test.platform.app.InstrumentationRegistry
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** The test for device farms, as far as it runs without a device. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class FarmBenchmarkTest {
    private val application = RuntimeEnvironment.getApplication() as DemoApplication
    private val folder = File(application.getExternalFilesDir(null), "benchmark")

    private fun measure(vararg arguments: Pair<String, String>) {
        application.services = Services(Toys, FakeModels(), runtimeVersion = { "9.9" })
        val bundle = Bundle()
        for ((key, value) in arguments) bundle.putString(key, value)
        InstrumentationRegistry.registerInstance(
            InstrumentationRegistry.getInstrumentation(),
            bundle,
        )
        FarmBenchmark().measuresEachBundle()
    }

    private val short = arrayOf("runs" to "4", "rounds" to "2", "min_seconds" to "0", "seed" to "3")

    @Test
    fun `each bundle leaves a result where farms collect files`() {
        measure(*short, "repetitions" to "1", "class" to "io.github.tfdistill.demo.FarmBenchmark")
        val results = List(4) { BenchmarkResult.read(File(folder, "farm-$it.json").readText()) }
        assertEquals(
            listOf("pairs", "spans", "tags", "vectors").map { "$it-float32" },
            results.map { it.models.single().name },
        )
        assertTrue(results.all { it.failures.isEmpty() && it.measurements.size == 2 })
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(folder, "farm-0.json").copyTo(File(it, "farm.json"), overwrite = true) }
    }

    @Test
    fun `what cannot be measured fails the test with the reason`() {
        val error =
            assertThrows(AssertionError::class.java) {
                measure("bundle" to "pairs-float32", "runs" to "many")
            }
        assertTrue("$error", "pairs-float32: runs: expected" in error.message.orEmpty())
        assertNull(folder.listFiles()?.firstOrNull { it.name == "farm-0.json" })
    }
}
