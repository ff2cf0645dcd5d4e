package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Answered
import io.github.tfdistill.benchmark.CaseSummary
import io.github.tfdistill.benchmark.Summary
import io.github.tfdistill.benchmark.Sustained

/** What the benchmark's screen says of figures. */
object MeasureWording {
    private const val MEGABYTE = 1e6

    fun title(resources: Resources, case: CaseSummary): String {
        val on =
            if (case.delegate == Accelerator.GPU.delegate) R.string.case_gpu
            else R.string.case_title
        return resources.getString(on, case.sequenceLength, case.threads)
    }

    fun figures(resources: Resources, case: CaseSummary, found: Summary): String {
        val lines = ArrayList<String>()
        lines +=
            resources.getString(
                R.string.percentiles,
                found.p50Ms,
                found.p90Ms,
                found.p95Ms,
                found.p99Ms,
            )
        lines += resources.getString(R.string.extremes, found.minMs, found.maxMs, found.n)
        case.peakRssBytes?.let { lines += resources.getString(R.string.memory, it / MEGABYTE) }
        if (case.throttled) lines += resources.getString(R.string.throttled)
        return lines.joinToString("\n")
    }

    /** Android's thermal status in words; null where it does not tell. */
    fun heat(resources: Resources, status: Int?): String? {
        val word = status?.let { resources.getStringArray(R.array.thermal).getOrNull(it) }
        return word?.let { resources.getString(R.string.heat_now, it) }
    }

    /** Whether this device answers as the computer that exported the model. */
    fun answers(resources: Resources, found: Answered): String {
        val (length, threads) = found.sequenceLength to found.threads
        val (count, error) = found.numExamples to found.maxAbsError
        return resources.getString(R.string.answers, length, threads, count, error)
    }

    /** How a run without pauses began and ended, and whether the device was hot. */
    fun sustained(resources: Resources, run: Sustained): String {
        val (first, last) = run.windows.first() to run.windows.last()
        val hot = run.windows.any { (it.conditions?.thermalStatus ?: 0) > 0 }
        val text =
            resources.getString(
                R.string.sustained_result,
                run.sequenceLength,
                run.threads,
                first.p50Ms,
                last.p50Ms,
                last.startSeconds,
            )
        return if (hot) "$text ${resources.getString(R.string.throttled)}" else text
    }
}
