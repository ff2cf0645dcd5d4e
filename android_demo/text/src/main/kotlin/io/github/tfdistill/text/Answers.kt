package io.github.tfdistill.text

import kotlin.math.exp

/** A label with its probability. */
public data class Scored(val label: String, val probability: Double)

/** From logits to what is shown. */
internal object Answers {
    /** Probabilities of classes that exclude each other. */
    fun softmax(logits: FloatArray): DoubleArray {
        val largest = logits.max().toDouble()
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
        val probabilities =
            when {
                card.softmax -> DoubleArray(outputs.size) { outputs[it].toDouble() }
                task.kind == TaskKind.MULTI_LABEL ->
                    DoubleArray(outputs.size) { sigmoid(outputs[it].toDouble()) }
                else -> softmax(outputs)
            }
        return task.labels.zip(probabilities.asList(), ::Scored).sortedByDescending {
            it.probability
        }
    }

    /** The tag of each word: the largest logit of its first piece. */
    fun tags(outputs: FloatArray, firstPieces: IntArray, labels: List<String>): List<String> {
        checkFinite(outputs)
        return firstPieces.map { piece ->
            labels[argmax(outputs, piece * labels.size, (piece + 1) * labels.size)]
        }
    }

    /** A model that answers with NaN or infinity is broken, and its answer is none. */
    fun checkFinite(outputs: FloatArray) {
        val position = outputs.indexOfFirst { !it.isFinite() }
        if (position < 0) return
        val message = explain("output $position of the model", "a finite number", outputs[position])
        throw BundleException(BundleFault.UNSUITABLE, message)
    }
}
