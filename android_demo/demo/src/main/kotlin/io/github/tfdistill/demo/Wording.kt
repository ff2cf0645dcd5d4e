package io.github.tfdistill.demo

import android.content.Context
import android.content.res.Resources
import android.graphics.Typeface
import android.text.SpannableStringBuilder
import android.text.Spanned
import android.text.style.ForegroundColorSpan
import android.text.style.StyleSpan
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.BundleFault
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Scored
import io.github.tfdistill.text.Vocabulary

/** What the app says, in the user's language. */
object Wording {
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

    fun probability(resources: Resources, label: Scored): String =
        resources.getString(R.string.probability, label.label, 100 * label.probability)

    /** The outcome: of labels the most probable one. */
    fun headline(resources: Resources, outcome: Outcome): String =
        when (outcome) {
            is Outcome.Labels -> probability(resources, outcome.labels.first())
            is Outcome.Vector -> resources.getString(R.string.vector, outcome.values.size)
            is Outcome.Value -> "%.4f".format(outcome.value)
            is Outcome.Tags ->
                outcome.words.zip(outcome.tags) { word, tag -> "$word  $tag" }.joinToString("\n")
            is Outcome.Found ->
                outcome.answer.text.ifEmpty { resources.getString(R.string.no_answer) }
        }

    /** How an outcome came about. */
    fun details(resources: Resources, found: Prediction): String {
        val lines = ArrayList<String>()
        lines += resources.getString(R.string.latency, found.tokenizerMs, found.inferenceMs)
        lines += resources.getString(R.string.length, found.tokens.size, found.sequenceLength)
        if (found.inferences > 1) lines += resources.getString(R.string.windows, found.inferences)
        if (found.inferences == 1 && found.wholeLength > found.tokens.size) {
            lines += resources.getString(R.string.cut, found.tokens.size, found.wholeLength)
        }
        val unknown = found.tokens.count { it == Vocabulary.UNKNOWN }
        if (unknown > 0) lines += resources.getString(R.string.unknown, unknown)
        return lines.joinToString("\n")
    }

    /** What the model read, piece by piece; what it cannot read stands out. */
    fun tokens(context: Context, tokens: List<String>): CharSequence {
        val text = SpannableStringBuilder(context.getString(R.string.tokens))
        for (token in tokens.take(MOST_TOKENS)) {
            text.append(' ')
            val begin = text.length
            text.append(token)
            if (token != Vocabulary.UNKNOWN) continue
            val colour = ForegroundColorSpan(context.getColor(R.color.warning))
            for (span in listOf(colour, StyleSpan(Typeface.BOLD))) {
                text.setSpan(span, begin, text.length, Spanned.SPAN_EXCLUSIVE_EXCLUSIVE)
            }
        }
        if (tokens.size > MOST_TOKENS) text.append(" …")
        return text
    }
}
