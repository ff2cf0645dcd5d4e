package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Toys
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Test

class StatisticsTest {
    @Test
    fun `statistics are those of the Python side`() {
        val cases =
            Toys.open("statistics.json")
                .use { Json.parseToJsonElement(String(it.readBytes())).jsonArray }
                .map { it.jsonObject }
        assertEquals(10, cases.size)
        for (case in cases) {
            fun value(name: String) = case.getValue(name).jsonPrimitive.double
            val summary =
                Statistics.summarize(
                    case.getValue("samples_ms").jsonArray.map { it.jsonPrimitive.double }
                )
            assertEquals(case.getValue("n").jsonPrimitive.int, summary.n)
            val exact =
                mapOf(
                    "p50_ms" to summary.p50Ms,
                    "p90_ms" to summary.p90Ms,
                    "p95_ms" to summary.p95Ms,
                    "p99_ms" to summary.p99Ms,
                    "min_ms" to summary.minMs,
                    "max_ms" to summary.maxMs,
                )
            for ((name, expected) in exact) assertEquals(
                name,
                value(name),
                expected,
                1e-15 * expected,
            )
            // NumPy adds in another order.
            assertEquals(value("mean_ms"), summary.meanMs, 1e-13 * summary.meanMs)
            assertEquals(value("std_ms"), summary.stdMs, 1e-12 * summary.meanMs)
        }
    }

    @Test
    fun `no samples, or no numbers, have no statistics`() {
        for (samples in
            listOf(emptyList(), listOf(1.0, Double.NaN), listOf(Double.POSITIVE_INFINITY))) {
            assertThrows(IllegalArgumentException::class.java) { Statistics.summarize(samples) }
        }
    }

    @Test
    fun `a histogram counts every sample, what is far out in the last bin`() {
        val samples = List(100) { it + 1.0 } + 5000.0
        val counts = Statistics.histogram(samples, 10)
        assertEquals(101, counts.sum())
        assertArrayEquals(intArrayOf(10, 10, 10, 10, 10, 10, 10, 10, 10, 11), counts)
        assertArrayEquals(intArrayOf(3, 0), Statistics.histogram(listOf(2.0, 2.0, 2.0), 2))
    }
}
