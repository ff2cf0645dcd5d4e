package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.demo.benchmark.Accelerator
import io.github.tfdistill.text.DeviceParity

/** What the app says of the GPU. */
object GpuWording {
    private const val MOST_CHARACTERS = 120

    fun of(resources: Resources, note: GpuNote): String =
        when (note) {
            is GpuNote.Comparing -> resources.getString(R.string.gpu_comparing, note.done, note.of)
            is GpuNote.Agrees -> agrees(resources, note.parity)
            is GpuNote.Differs -> differs(resources, note.parity)
            is GpuNote.Refused -> resources.getString(R.string.gpu_refused, note.reason)
            GpuNote.Stopped -> resources.getString(R.string.gpu_stopped)
            GpuNote.Ended -> resources.getString(R.string.gpu_ended)
        }

    /** What an answer was computed on. */
    fun on(resources: Resources, by: ComputedOn?): String =
        resources.getString(
            when {
                by?.accelerator != Accelerator.GPU -> R.string.on_cpu
                by.shared -> R.string.on_both
                else -> R.string.on_gpu
            }
        )

    private fun agrees(resources: Resources, found: DeviceParity): String {
        val (error, allowed) = 100 * found.maxError to 100 * found.bounds.maxError
        return resources.getString(R.string.gpu_agrees, found.numAnswers, error, allowed)
    }

    private fun differs(resources: Resources, found: DeviceParity): String {
        if (found.unchecked.isNotEmpty()) {
            return resources.getString(R.string.gpu_unchecked, found.unchecked.joinToString())
        }
        val (error, allowed) = 100 * found.maxError to 100 * found.bounds.maxError
        val example = found.changed.firstOrNull() ?: found.worst
        return resources.getString(
            R.string.gpu_differs,
            error,
            allowed,
            found.changed.size,
            found.numAnswers,
            example.take(MOST_CHARACTERS),
        )
    }
}
