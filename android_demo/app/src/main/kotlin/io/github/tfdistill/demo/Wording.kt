package io.github.tfdistill.demo

import android.content.res.Resources
import io.github.tfdistill.demo.core.BundleException
import io.github.tfdistill.demo.core.BundleFault
import io.github.tfdistill.demo.core.Outcome
import io.github.tfdistill.demo.core.Prediction

/** What the app says, in the user's language. */
object Wording {
    private const val MOST_LABELS = 10
    private const val MOST_TOKENS = 512

    /** What is wrong with a bundle, and what to do. */
    fun of(resources: Resources, error: BundleException): String {
        val text =
            when (error.fault) {
                BundleFault.MISSING -> R.string.fault_missing
                BundleFault.MALFORMED -> R.string.fault_malformed
                BundleFault.NEWER -> R.string.fault_newer
                BundleFault.TAMPERED -> R.string.fault_tampered
                BundleFault.UNSUITABLE -> R.string.fault_unsuitable
            }
        return listOf(
                resources.getString(R.string.fault_title),
                resources.getString(text),
                resources.getString(R.string.details, error.message),
            )
            .joinToString("\n\n")
    }

    /** An outcome, and how it came about. */
    fun of(resources: Resources, found: Prediction): String {
        val lines = outcome(resources, found.outcome).toMutableList()
        lines += ""
        if (found.inferences == 1 && found.wholeLength > found.tokens.size) {
            lines += resources.getString(R.string.cut, found.tokens.size, found.wholeLength)
        }
        val (tokenizer, model) = found.tokenizerMs to found.inferenceMs
        lines += resources.getString(R.string.latency, tokenizer, model, found.sequenceLength)
        val shown = found.tokens.take(MOST_TOKENS).joinToString(" ")
        lines += resources.getString(R.string.tokens, found.tokens.size, shown)
        return lines.joinToString("\n")
    }

    private fun outcome(resources: Resources, outcome: Outcome): List<String> =
        when (outcome) {
            is Outcome.Labels ->
                outcome.labels.take(MOST_LABELS).map {
                    resources.getString(R.string.probability, it.label, 100 * it.probability)
                }
            is Outcome.Value -> listOf("%.4f".format(outcome.value))
            is Outcome.Tags -> outcome.words.zip(outcome.tags) { word, tag -> "$word  $tag" }
            is Outcome.Found ->
                listOf(outcome.answer.text.ifEmpty { resources.getString(R.string.no_answer) })
        }
}
