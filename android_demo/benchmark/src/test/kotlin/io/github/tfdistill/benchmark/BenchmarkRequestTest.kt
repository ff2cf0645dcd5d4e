package io.github.tfdistill.benchmark

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class BenchmarkRequestTest {
    private val least = mapOf("bundle" to "sst2-int8")

    @Test
    fun `defaults are those of benchmark_model`() {
        val expected = BenchmarkRequest(bundle = "sst2-int8")
        assertEquals(expected, BenchmarkRequest.parse(least))
        assertEquals(expected, BenchmarkRequest.parse(least + ("runs" to null)))
    }

    @Test
    fun `all that can be asked for is read`() {
        val settings =
            least +
                mapOf(
                    "lengths" to "32,64",
                    "threads" to "1,4",
                    "accelerator" to "gpu",
                    "warmup" to "0",
                    "runs" to "7",
                    "min_seconds" to "0.5",
                    "max_runs" to "9",
                    "repetitions" to "2",
                    "rounds" to "3",
                    "cool_down_seconds" to "1.5",
                    "seed" to "4",
                )
        assertEquals(BenchmarkRequest.KEYS, settings.keys)
        val expected =
            BenchmarkRequest(
                "sst2-int8",
                listOf(32, 64),
                listOf(1, 4),
                Accelerator.GPU,
                0,
                7,
                0.5,
                9,
                2,
                3,
                1.5,
                4,
            )
        assertEquals(expected, BenchmarkRequest.parse(settings))
    }

    @Test
    fun `what is out of bounds is refused, all at once`() {
        val wrong =
            mapOf(
                "bundle" to "a/b",
                "lengths" to "0",
                "threads" to "1,1",
                "accelerator" to "npu",
                "warmup" to "-1",
                "runs" to "0",
                "min_seconds" to "NaN",
                "max_runs" to "many",
                "repetitions" to "101",
                "rounds" to "",
                "cool_down_seconds" to "-1",
                "seed" to "-1",
            )
        val error =
            assertThrows(IllegalArgumentException::class.java) { BenchmarkRequest.parse(wrong) }
        val names = error.message.orEmpty().lines().map { it.substringBefore(':') }
        assertEquals(wrong.keys, names.toSet())
        assertEquals(wrong.size, names.size)
    }

    @Test
    fun `one fault is enough, whatever it is`() {
        val wrong =
            mapOf(
                "bundle" to listOf("", ".", "..", "a/../b", "a".repeat(129), null),
                "lengths" to listOf("", "a", "1,", "1,,2", "-1", "4097", "99999999999"),
                "threads" to listOf("0", "65", "1 2"),
                "runs" to listOf("1.5", "99999999999"),
                "min_seconds" to listOf("a", "3601", "Infinity"),
            )
        for ((name, values) in wrong) for (value in values) {
            val error =
                assertThrows("$name $value", IllegalArgumentException::class.java) {
                    BenchmarkRequest.parse(least + (name to value))
                }
            assertTrue(error.message, name in error.message.orEmpty())
        }
    }

    @Test
    fun `blocks are as long as those on a computer`() {
        val request = BenchmarkRequest("b")
        // tfdistill.benchmark.settings.Settings().block_runs of the same estimates
        val expected = mapOf(100.0 to 10, 5.0 to 20, 3.3 to 31, 0.1 to 200, 0.0 to 200)
        assertEquals(expected, expected.mapValues { request.blockRuns(it.key) })
        assertEquals(30, request.copy(runs = 300, maxRuns = 20).blockRuns(0.1))
    }
}
