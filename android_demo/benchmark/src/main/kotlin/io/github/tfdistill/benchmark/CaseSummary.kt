package io.github.tfdistill.benchmark

/**
 * All repetitions of a length on a number of threads: what the benchmark's screen shows.
 *
 * @property samplesMs of the repetitions that count
 * @property peakRssBytes the most resident memory; null if unknown
 * @property throttled whether Android said during one of them that the device was hot
 */
class CaseSummary(
    val sequenceLength: Int,
    val threads: Int,
    val delegate: String,
    val samplesMs: List<Double>,
    val peakRssBytes: Long?,
    val throttled: Boolean,
) {
    companion object {
        /** The cases of a result, shorter lengths first. */
        fun of(result: BenchmarkResult): List<CaseSummary> =
            result.measurements
                .filter { it.leftOut.isEmpty() && it.samplesMs.isNotEmpty() }
                .groupBy { it.sequenceLength to it.threads }
                .map { (case, rows) ->
                    val states = rows.flatMap { listOf(it.before, it.after) }
                    CaseSummary(
                        case.first,
                        case.second,
                        rows.first().delegate,
                        rows.flatMap { it.samplesMs },
                        rows.mapNotNull { it.peakRssBytes }.maxOrNull(),
                        states.any { (it?.thermalStatus ?: 0) > 0 },
                    )
                }
                .sortedWith(compareBy({ it.sequenceLength }, { it.threads }))
    }
}
