package io.github.tfdistill.benchmark

import kotlin.math.floor
import kotlin.math.sqrt

/** Durations by order statistics and moments; the standard deviation divides by n - 1. */
data class Summary(
    val n: Int,
    val p50Ms: Double,
    val p90Ms: Double,
    val p95Ms: Double,
    val p99Ms: Double,
    val minMs: Double,
    val maxMs: Double,
    val meanMs: Double,
    val stdMs: Double,
)

/** Statistics of latencies, the same as in `tfdistill/benchmark/statistics/stats.py`. */
object Statistics {
    /**
     * Describes samples in milliseconds.
     *
     * @throws IllegalArgumentException if there is none, or one is no number
     */
    fun summarize(samples: List<Double>): Summary {
        require(samples.isNotEmpty() && samples.all { it.isFinite() }) {
            explain("latency samples", "at least one finite duration", samples.take(3))
        }
        val sorted = samples.toDoubleArray().apply { sort() }
        val mean = samples.sum() / samples.size
        val squares = samples.sumOf { (it - mean) * (it - mean) }
        return Summary(
            n = samples.size,
            p50Ms = percentile(sorted, 50.0),
            p90Ms = percentile(sorted, 90.0),
            p95Ms = percentile(sorted, 95.0),
            p99Ms = percentile(sorted, 99.0),
            minMs = sorted.first(),
            maxMs = sorted.last(),
            meanMs = mean,
            stdMs = if (samples.size > 1) sqrt(squares / (samples.size - 1)) else 0.0,
        )
    }

    /** The median of samples. */
    fun median(samples: List<Double>): Double =
        percentile(samples.toDoubleArray().apply { sort() }, 50.0)

    /** Interpolates linearly between the two nearest of sorted samples. */
    fun percentile(sorted: DoubleArray, percent: Double): Double {
        val rank = (sorted.size - 1) * (percent / 100)
        val below = floor(rank).toInt()
        val above = minOf(below + 1, sorted.lastIndex)
        val part = rank - below
        val step = sorted[above] - sorted[below]
        // From the nearer end, as NumPy does.
        return if (part < 0.5) sorted[below] + step * part else sorted[above] - step * (1 - part)
    }

    /**
     * How many samples fall into each of equal bins between the least and the 99th percentile; what
     * is beyond is in the last one.
     */
    fun histogram(samples: List<Double>, bins: Int): IntArray {
        val sorted = samples.toDoubleArray().apply { sort() }
        val low = sorted.first()
        val width = (percentile(sorted, 99.0) - low) / bins
        val counts = IntArray(bins)
        for (sample in sorted) {
            val bin = if (width > 0) floor((sample - low) / width).toInt() else 0
            counts[minOf(bin, bins - 1)]++
        }
        return counts
    }
}
