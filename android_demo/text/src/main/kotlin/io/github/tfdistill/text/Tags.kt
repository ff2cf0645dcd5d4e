package io.github.tfdistill.text

import kotlin.math.exp
import kotlin.math.ln

/**
 * What the names of tags say of their order; `allowed` in `tfdistill/tasks/decoding.py` is the
 * rule.
 *
 * @property nameEntities whether a tag begins an entity; otherwise each tag may follow each
 */
internal class TagRules(private val labels: List<String>) {
    private val roles =
        labels.map { if (it.length > 1 && it[1] == '-' && it[0] in "BIESLU") it[0] else NONE }
    val nameEntities =
        roles.any { it in "BSU" } && labels.indices.all { roles[it] != NONE || labels[it] == "O" }
    private val isStrict = roles.any { it in "ESLU" }
    private val parts =
        PARTS.map { names ->
            labels.indices.map { tag ->
                val name = (names[roles[tag]] ?: roles[tag]) + labels[tag].drop(1)
                labels.indexOf(name).takeIf { it >= 0 && nameEntities } ?: tag
            }
        }
    private val after =
        labels.indices.map { before ->
            BooleanArray(labels.size) { tag ->
                if (!continues(tag)) isLast(before)
                else roles[before] in "BI" && labels[before].drop(2) == labels[tag].drop(2)
            }
        }

    fun begins(tag: Int): Boolean = nameEntities && roles[tag] in "BSU"

    fun continues(tag: Int): Boolean = nameEntities && roles[tag] in "IEL"

    /** Whether a text, or what is before another entity or none, may end with a tag. */
    fun isLast(tag: Int): Boolean = !nameEntities || !isStrict || roles[tag] !in "BI"

    /** Whether a tag may follow another one, or be the first. */
    fun isNext(before: Int?, tag: Int): Boolean =
        if (before == null) !continues(tag) else after[before][tag]

    /** The tags of as many words that one token answers for together. */
    fun ofWords(tag: Int, count: Int): List<Int> =
        if (count == 1) listOf(tag)
        else List(count) { parts[if (it == 0) 0 else if (it < count - 1) 1 else 2][tag] }

    private companion object {
        const val NONE = ' '

        /** What the role of the whole is for the first word, for those inside, for the last. */
        val PARTS =
            listOf(
                mapOf('S' to 'B', 'U' to 'B', 'E' to 'I', 'L' to 'I'),
                "BESLU".associateWith { 'I' },
                mapOf('B' to 'I', 'S' to 'E', 'U' to 'L'),
            )
    }
}

/**
 * The best path of tags (Viterbi), and how probable it is; `best_path`, `path_log_probabilities`
 * and `entities` in `tfdistill/tasks/decoding.py` are the rules.
 *
 * @param scores of each token that answers one for each tag: logits, or logarithms of probabilities
 * @param temperature what divides them in probabilities
 */
internal class TagPath(
    private val rules: TagRules,
    private val scores: List<DoubleArray>,
    private val temperature: Double,
) {
    /** An entity from token [first] to [end], not included. */
    class Part(val first: Int, val end: Int, val probability: Double)

    val tags = IntArray(scores.size)

    init {
        val width = scores.firstOrNull()?.size ?: 0
        val before = scores.map { IntArray(width) }
        var sums = DoubleArray(width) { if (rules.isNext(null, it)) scores[0][it] else NEVER }
        for (token in 1 until scores.size) {
            sums =
                DoubleArray(width) { tag ->
                    val best = best(width) { if (rules.isNext(it, tag)) sums[it] else NEVER }
                    before[token][tag] = best
                    (if (rules.isNext(best, tag)) sums[best] else NEVER) + scores[token][tag]
                }
        }
        var tag = if (width == 0) 0 else best(width) { if (rules.isLast(it)) sums[it] else NEVER }
        for (token in scores.indices.reversed()) {
            tags[token] = tag
            tag = before[token][tag]
        }
    }

    /** The logarithm of the probability of each tag among those allowed behind the last. */
    val logProbabilities =
        DoubleArray(scores.size) { scores[it][tags[it]] / temperature - logSum(it) { true } }

    /** The entities on the path, in order. */
    fun entities(): List<Part> =
        tags.indices
            .filter { rules.begins(tags[it]) }
            .map { first ->
                var end = first + 1
                while (end < tags.size && rules.continues(tags[end])) end++
                var sum = (first until end).sumOf { logProbabilities[it] }
                if (end < tags.size)
                    sum += logSum(end) { !rules.continues(it) } - logSum(end) { true }
                Part(first, end, exp(sum))
            }

    /**
     * The runs of tokens that the path calls O and that are still likely of an entity, each with
     * its type; `hidden_entities` in `tfdistill/tasks/decoding.py` is the rule.
     */
    fun hidden(labels: List<String>, threshold: Double): List<Pair<String, Part>> {
        val types = labels.filter { it != OUTSIDE }.map { it.drop(2) }.distinct()
        val isHidden =
            tags.mapIndexed { token, tag ->
                labels[tag] == OUTSIDE && share(token) { labels[it] != OUTSIDE } > threshold
            }
        val runs = ArrayList<Pair<String, Part>>()
        var first = 0
        for (end in 1..tags.size) {
            if (!isHidden[end - 1]) first = end
            if (first == end || isHidden.getOrElse(end) { false }) continue
            val shares =
                types.map { type ->
                    (first until end).maxOf { token ->
                        share(token) { labels[it] != OUTSIDE && labels[it].drop(2) == type }
                    }
                }
            val type = shares.indexOfFirst { it > shares.max() * (1 - EQUAL) }
            runs += types[type] to Part(first, end, shares[type])
        }
        return runs
    }

    /** The probability of some tags of a token by its scores alone. */
    private fun share(token: Int, isCounted: (Int) -> Boolean): Double {
        val values = scores[token].map { it / temperature }
        val largest = values.max()
        val parts = values.map { exp(it - largest) }
        return parts.indices.filter(isCounted).sumOf { parts[it] } / parts.sum()
    }

    private fun best(width: Int, value: (Int) -> Double): Int =
        (1 until width).fold(0) { best, tag -> if (value(tag) > value(best)) tag else best }

    private fun logSum(token: Int, isCounted: (Int) -> Boolean): Double {
        val before = if (token == 0) null else tags[token - 1]
        val values =
            scores[token]
                .indices
                .filter {
                    val mayEnd = token < scores.size - 1 || rules.isLast(it)
                    rules.isNext(before, it) && mayEnd && isCounted(it)
                }
                .map { scores[token][it] / temperature }
        val largest = values.max()
        return largest + ln(values.sumOf { exp(it - largest) })
    }

    private companion object {
        const val NEVER = Double.NEGATIVE_INFINITY
        const val OUTSIDE = "O"
        const val EQUAL = 1e-9 // of a probability, whose last digits depend on the order of a sum
    }
}
