package io.github.tfdistill.benchmark

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Test

class DistributionTest {
    private fun measurement(length: Int, threads: Int, samples: List<Double>, status: Int = 0) =
        Measurement(
            model = "m",
            sequenceLength = length,
            threads = threads,
            delegate = "xnnpack",
            repetition = 0,
            samplesMs = samples,
            peakRssBytes = samples.size.toLong(),
            after = Conditions("now", thermalStatus = status),
        )

    private fun result(vararg rows: Measurement) =
        BenchmarkResult(
            formatVersion = 2,
            kind = "phone",
            backend = "app",
            created = "now",
            tfdistillVersion = "0",
            device = Device("d"),
            runtime = Runtime("r"),
            models = emptyList(),
            measurements = rows.asList(),
        )

    @Test
    fun `the highest bar is of height one and the others in proportion`() {
        // 1 ms four times, 2 ms twice, 5 ms once: the axis ends at the 99th percentile, 4.82 ms.
        val drawn = Distribution(listOf(1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 5.0), bars = 4)
        assertEquals(listOf(1.0, 0.5, 0.0, 0.25), drawn.heights)
        assertEquals(4.82, drawn.highMs, 1e-12)
    }

    @Test
    fun `a slow inference stands at the end and not beyond`() {
        val drawn = Distribution(List(99) { 1.0 + it / 100.0 } + 500.0)
        assertEquals(0.0, drawn.place(1.0), 0.0)
        assertEquals(1.0, drawn.place(500.0), 0.0)
        assertEquals(0.5, drawn.place((drawn.lowMs + drawn.highMs) / 2), 1e-12)
    }

    @Test
    fun `equal samples are one bar at the start`() {
        val drawn = Distribution(List(5) { 3.0 }, bars = 3)
        assertEquals(listOf(1.0, 0.0, 0.0), drawn.heights)
        assertEquals(0.0, drawn.place(3.0), 0.0)
        assertThrows(IllegalArgumentException::class.java) { Distribution(emptyList()) }
    }

    @Test
    fun `repetitions of a case are shown together and others apart`() {
        val cases =
            CaseSummary.of(
                result(
                    measurement(32, 1, listOf(5.0)),
                    measurement(16, 2, listOf(1.0, 2.0)),
                    measurement(16, 1, listOf(4.0)),
                    measurement(16, 2, listOf(3.0), status = 2),
                    measurement(16, 2, listOf(9.0)).copy(leftOut = "disturbed"),
                )
            )
        assertEquals(
            listOf(16 to 1, 16 to 2, 32 to 1),
            cases.map { it.sequenceLength to it.threads },
        )
        assertEquals(listOf(1.0, 2.0, 3.0), cases[1].samplesMs)
        assertEquals(2L, cases[1].peakRssBytes)
        assertEquals(listOf(false, true, false), cases.map { it.throttled })
    }
}
