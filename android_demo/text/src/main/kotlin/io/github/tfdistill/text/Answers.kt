package io.github.tfdistill.text

import kotlin.math.exp
import kotlin.math.ln
import kotlin.math.max

/** A label with its probability. */
public data class Scored(val label: String, val probability: Double)

/** From logits to what is shown. */
internal object Answers {
    private const val SMALLEST = 1e-12 // probability whose logarithm is taken

    /** Probabilities of classes that exclude each other. */
    fun softmax(logits: FloatArray): DoubleArray =
        softmax(DoubleArray(logits.size) { logits[it].toDouble() })

    /** The same of numbers that a temperature has divided. */
    fun softmax(logits: DoubleArray): DoubleArray {
        val largest = logits.max()
        val powers = DoubleArray(logits.size) { exp(logits[it] - largest) }
        val sum = powers.sum()
        return DoubleArray(logits.size) { powers[it] / sum }
    }

    /** The probability of a label that does not exclude others. */
    fun sigmoid(logit: Double): Double =
        if (logit >= 0) 1 / (1 + exp(-logit)) else exp(logit).let { it / (1 + it) }

    /** Index of the largest value, of equal ones the first. */
    fun argmax(values: FloatArray, from: Int = 0, to: Int = values.size): Int {
        var best = from
        for (index in from + 1 until to) if (values[index] > values[best]) best = index
        return best - from
    }

    /**
     * The labels of a text, the most probable first, of equal ones the first.
     *
     * @param outputs of the model, one for each label
     * @param card whose task has labels; says whether the outputs are probabilities already
     * @throws BundleException if an output is no number
     */
    fun labels(outputs: FloatArray, card: Manifest): List<Scored> {
        val task = checkNotNull(card.task)
        checkFinite(outputs)
        val temperature = card.confidence?.temperature ?: 1.0
        val logits = logits(outputs, card).also { for (i in it.indices) it[i] /= temperature }
        val probabilities =
            when {
                card.softmax && card.confidence == null ->
                    DoubleArray(outputs.size) { outputs[it].toDouble() }
                task.kind == TaskKind.MULTI_LABEL ->
                    DoubleArray(outputs.size) { sigmoid(logits[it]) }
                else -> softmax(logits)
            }
        return task.labels.zip(probabilities.asList(), ::Scored).sortedByDescending {
            it.probability
        }
    }

    /**
     * The probability of all labels of a text together: of one class its own, of several labels the
     * product of that of each, whether it applies or not.
     */
    fun confidence(labels: List<Scored>, kind: TaskKind): Double =
        if (kind == TaskKind.MULTI_LABEL)
            labels.fold(1.0) { product, it -> product * max(it.probability, 1 - it.probability) }
        else labels.first().probability

    /** Logits, or of a file that gives probabilities their logarithms. */
    fun logits(outputs: FloatArray, card: Manifest): DoubleArray =
        DoubleArray(outputs.size) {
            val output = outputs[it].toDouble()
            if (card.softmax) ln(max(output, SMALLEST)) else output
        }

    /** A model that answers with NaN or infinity is broken, and its answer is none. */
    fun checkFinite(outputs: FloatArray) {
        val position = outputs.indexOfFirst { !it.isFinite() }
        if (position < 0) return
        val message = explain("output $position of the model", "a finite number", outputs[position])
        throw BundleException(BundleFault.UNSUITABLE, message)
    }
}
