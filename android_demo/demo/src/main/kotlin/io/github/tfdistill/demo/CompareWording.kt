package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.text.Outcome

/** The table of two answers: rows of what, of the first model, of the second. */
object CompareWording {
    private const val KILOBYTE = 1e3
    private const val MOST_LABELS = 20

    fun rows(resources: Resources, answers: List<Compared>): List<List<String>> {
        if (answers.isEmpty()) return emptyList()
        fun row(title: Int, value: (Compared) -> String) =
            listOf(resources.getString(title)) + answers.map(value)
        val rows = ArrayList<List<String>>()
        rows += row(R.string.model) { it.bundle.name }
        rows += row(R.string.answer) { headline(resources, it) }
        rows += labels(resources, answers)
        rows +=
            row(R.string.model_time) {
                resources.getString(R.string.milliseconds, it.prediction.inferenceMs)
            }
        rows +=
            row(R.string.tokenizer_time) {
                resources.getString(R.string.milliseconds, it.prediction.tokenizerMs)
            }
        rows +=
            row(R.string.size) {
                val bytes = it.bundle.manifest.model.sizeBytes
                resources.getString(R.string.kilobytes, bytes / KILOBYTE)
            }
        rows += row(R.string.quantization) { it.bundle.manifest.quantization }
        rows += row(R.string.chosen_length) { "${it.prediction.sequenceLength}" }
        return rows
    }

    private fun headline(resources: Resources, side: Compared): String =
        when (val outcome = side.prediction.outcome) {
            is Outcome.Labels -> outcome.labels.first().label
            else -> Wording.headline(resources, outcome)
        }

    /** The probability of every label that one of them has, in the order of the first. */
    private fun labels(resources: Resources, answers: List<Compared>): List<List<String>> {
        val scored = answers.map { (it.prediction.outcome as? Outcome.Labels)?.labels.orEmpty() }
        val names = scored.flatten().map { it.label }.distinct()
        val rows =
            names.take(MOST_LABELS).map { name ->
                listOf(name) +
                    scored.map { own ->
                        val found = own.firstOrNull { it.label == name }?.probability
                        found?.let { resources.getString(R.string.percent, 100 * it) }.orEmpty()
                    }
            }
        if (names.size <= MOST_LABELS) return rows
        val note = resources.getString(R.string.some_labels, MOST_LABELS, names.size)
        return rows + listOf(listOf(note, "", ""))
    }
}
