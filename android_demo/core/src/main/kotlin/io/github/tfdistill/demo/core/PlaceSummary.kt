package io.github.tfdistill.demo.core

/**
 * All repetitions of a length on a number of threads: what the benchmark's screen shows.
 *
 * @property samplesMs of the repetitions that count
 * @property peakRssBytes the most resident memory; null if unknown
 * @property throttled whether Android said during one of them that the device was hot
 */
class PlaceSummary(
    val sequenceLength: Int,
    val threads: Int,
    val delegate: String,
    val samplesMs: List<Double>,
    val peakRssBytes: Long?,
    val throttled: Boolean,
) {
    companion object {
        /** The places of a result, shorter lengths first. */
        fun of(result: BenchmarkResult): List<PlaceSummary> =
            result.measurements
                .filter { it.leftOut.isEmpty() && it.samplesMs.isNotEmpty() }
                .groupBy { it.sequenceLength to it.threads }
                .map { (place, rows) ->
                    val states = rows.flatMap { listOf(it.before, it.after) }
                    PlaceSummary(
                        place.first,
                        place.second,
                        rows.first().delegate,
                        rows.flatMap { it.samplesMs },
                        rows.mapNotNull { it.peakRssBytes }.maxOrNull(),
                        states.any { (it?.thermalStatus ?: 0) > 0 },
                    )
                }
                .sortedWith(compareBy({ it.sequenceLength }, { it.threads }))
    }
}
