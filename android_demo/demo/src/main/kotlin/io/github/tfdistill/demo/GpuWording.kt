package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.text.DeviceParity

/** What the app says of GPU and NPU, which have the same names in every language. */
object GpuWording {
    private const val MOST_CHARACTERS = 120

    fun of(resources: Resources, note: GpuNote, on: Accelerator): String =
        when (note) {
            is GpuNote.Comparing ->
                resources.getString(R.string.gpu_comparing, note.done, note.of, on.name)
            is GpuNote.Agrees -> agrees(resources, note.parity, on)
            is GpuNote.Differs -> differs(resources, note.parity, on)
            is GpuNote.Refused -> resources.getString(R.string.gpu_refused, note.reason, on.name)
            GpuNote.Stopped -> resources.getString(R.string.gpu_stopped)
            GpuNote.Ended -> resources.getString(R.string.gpu_ended, on.name)
        }

    /** What an answer was computed on. */
    fun on(resources: Resources, by: ComputedOn?): String =
        when {
            by == null || by.accelerator == Accelerator.CPU -> resources.getString(R.string.on_cpu)
            by.shared -> resources.getString(R.string.on_both, by.accelerator.name)
            else -> resources.getString(R.string.on_gpu, by.accelerator.name)
        }

    private fun agrees(resources: Resources, found: DeviceParity, on: Accelerator): String {
        val (error, allowed) = 100 * found.maxError to 100 * found.bounds.maxError
        return resources.getString(R.string.gpu_agrees, found.numAnswers, error, allowed, on.name)
    }

    private fun differs(resources: Resources, found: DeviceParity, on: Accelerator): String {
        if (found.unchecked.isNotEmpty()) {
            val lengths = found.unchecked.joinToString()
            return resources.getString(R.string.gpu_unchecked, lengths, on.name)
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
            on.name,
        )
    }
}
