package io.github.tfdistill.benchmark

/**
 * How a distribution of latencies is drawn: places and heights as parts of the drawing, 0 to 1.
 *
 * The axis ends at the 99th percentile, so that one slow inference does not press all others
 * together; what is beyond counts in the last bar.
 *
 * @param samplesMs at least one duration
 */
class Distribution(samplesMs: List<Double>, bars: Int = BARS) {
    val summary: Summary = Statistics.summarize(samplesMs)

    /** Where the axis begins and ends. */
    val lowMs: Double = summary.minMs
    val highMs: Double = summary.p99Ms

    /** Height of each bar; the highest is 1. */
    val heights: List<Double> =
        Statistics.histogram(samplesMs, bars).let { counts ->
            counts.map { it.toDouble() / counts.max() }
        }

    /** Where a duration stands between both ends of the axis. */
    fun place(ms: Double): Double =
        if (highMs > lowMs) ((ms - lowMs) / (highMs - lowMs)).coerceIn(0.0, 1.0) else 0.0

    private companion object {
        const val BARS = 40
    }
}
