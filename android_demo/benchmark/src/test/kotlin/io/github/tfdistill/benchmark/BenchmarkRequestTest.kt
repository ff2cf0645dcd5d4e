package io.github.tfdistill.benchmark

import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class BenchmarkRequestTest {
    private val least = mapOf("run_id" to "a-1_B", "bundle" to "sst2-int8")

    @Test
    fun `defaults are those of the harness`() {
        val expected = BenchmarkRequest(runId = "a-1_B", bundle = "sst2-int8")
        assertEquals(expected, BenchmarkRequest.parse(least))
    }

    @Test
    fun `all that an intent brings is read`() {
        val extras =
            least +
                mapOf(
                    "lengths" to "32,64",
                    "threads" to "1,4",
                    "accelerator" to "gpu",
                    "warmup" to 0,
                    "runs" to 7,
                    "min_seconds" to 0.5f,
                    "max_runs" to 9,
                    "repetitions" to 2,
                    "rounds" to 3,
                    "cool_down_seconds" to 1.5f,
                    "sustained_seconds" to 60f,
                    "seed" to 4,
                )
        assertEquals(BenchmarkRequest.KEYS, extras.keys)
        val expected =
            BenchmarkRequest(
                "a-1_B",
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
                60.0,
                4,
            )
        assertEquals(expected, BenchmarkRequest.parse(extras))
    }

    @Test
    fun `what is out of bounds is refused, all at once`() {
        val wrong =
            mapOf<String, Any?>(
                "run_id" to "../up",
                "bundle" to "a/b",
                "lengths" to "0",
                "threads" to "1,1",
                "accelerator" to "npu",
                "warmup" to -1,
                "runs" to 0,
                "min_seconds" to Float.NaN,
                "max_runs" to "9",
                "repetitions" to 101,
                "rounds" to 0,
                "cool_down_seconds" to -1f,
                "sustained_seconds" to 1e9f,
                "seed" to -1,
                "more" to 1,
            )
        val error =
            assertThrows(IllegalArgumentException::class.java) { BenchmarkRequest.parse(wrong) }
        val lines = error.message.orEmpty().lines()
        assertEquals(wrong.size, lines.size)
        for (name in wrong.keys) assertTrue(
            name,
            lines.any { it.startsWith("$name:") || name in it },
        )
    }

    @Test
    fun `one fault is enough, whatever it is`() {
        val wrong =
            mapOf<String, List<Any?>>(
                "run_id" to listOf("", "a b", "a".repeat(65), "a\n", "a.b", 7, null),
                "bundle" to listOf("", ".", "..", "a/../b", "a".repeat(129), null),
                "lengths" to listOf("", "a", "1,", "1,,2", "-1", "4097", "99999999999", 16),
                "threads" to listOf("0", "65", "1 2"),
                "min_seconds" to listOf("1", 3601f, Double.POSITIVE_INFINITY),
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
    fun `a refusal is reported only under a name that can be a file`() {
        assertEquals("a-1_B", BenchmarkRequest.runId(least + ("runs" to -1)))
        for (name in listOf("../a", "", null, 3)) {
            assertNull(BenchmarkRequest.runId(mapOf("run_id" to name)))
        }
    }

    @Test
    fun `blocks are as long as those of the harness`() {
        val request = BenchmarkRequest("a", "b")
        // tfdistill.benchmark.settings.Settings().block_runs of the same estimates
        val expected = mapOf(100.0 to 10, 5.0 to 20, 3.3 to 31, 0.1 to 200, 0.0 to 200)
        assertEquals(expected, expected.mapValues { request.blockRuns(it.key) })
        assertEquals(30, request.copy(runs = 300, maxRuns = 20).blockRuns(0.1))
    }
}
