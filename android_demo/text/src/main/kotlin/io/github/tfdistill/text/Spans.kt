package io.github.tfdistill.text

/**
 * A question about a text, cut into windows; `SpanRecord` in `tfdistill/manifest/__init__.py` is
 * the rule.
 */
internal class Question(
    val context: String,
    val windows: List<Window>,
    val pieces: Pieces,
    val bestWindow: IntArray,
)

/**
 * An answer.
 *
 * @property text a part of the context, or "" for none
 * @property start where it begins in the context, UTF-16
 * @property end where it ends, not included
 * @property score its start logit plus its end logit; minus infinity if there is no candidate
 * @property nullScore those of [CLS], the least over the windows
 */
public data class Answer(
    public val text: String,
    public val start: Int,
    public val end: Int,
    public val score: Double,
    public val nullScore: Double,
)

/** Questions about a text: from texts to windows, and from logits to an answer. */
internal class Spans(
    private val tokenizer: Tokenizer,
    private val rules: SpanRecord,
    private val max: Int,
) {

    /** Cuts a text into windows, each behind the question. */
    fun question(question: String, context: String): Question {
        val questionIds =
            tokenizer.pieces(question).ids.let {
                it.copyOf(minOf(it.size, rules.maxQuestionLength))
            }
        val pieces = tokenizer.pieces(context)
        val room = max - tokenizer.leastOfPair - questionIds.size
        val step = minOf(rules.docStride, room) // a larger step would leave pieces out
        val windows =
            Windows.cut(pieces.size, room, step) { first, count ->
                val part = pieces.ids.copyOfRange(first, first + count)
                val textStart = questionIds.size + tokenizer.leastOfPair - 1
                Window(tokenizer.join(questionIds, part, max), textStart, first, count)
            }
        return Question(context, windows, pieces, Windows.best(windows, pieces.size))
    }

    /**
     * Reads the answer off the logits.
     *
     * @param starts start logits of each window, padding or not
     * @param ends end logits of each window
     * @throws BundleException if a logit is no number
     */
    fun decode(question: Question, starts: List<FloatArray>, ends: List<FloatArray>): Answer {
        var best: Answer? = null
        var nullScore = Double.POSITIVE_INFINITY
        for ((number, window) in question.windows.withIndex()) {
            Answers.checkFinite(starts[number])
            Answers.checkFinite(ends[number])
            val none = starts[number][0].toDouble() + ends[number][0].toDouble()
            nullScore = minOf(nullScore, none)
            val pieces =
                (0 until window.count).filter { question.bestWindow[window.first + it] == number }
            val firsts = largest(starts[number], window.textStart, pieces)
            val lasts = largest(ends[number], window.textStart, (0 until window.count).toList())
            for (first in firsts) {
                for (last in lasts) {
                    if (last - first !in 0 until rules.maxAnswerLength) continue
                    val score =
                        starts[number][window.textStart + first].toDouble() +
                            ends[number][window.textStart + last].toDouble()
                    if (best == null || score > best.score) {
                        best = answer(question, window.first + first, window.first + last, score)
                    }
                }
            }
        }
        val bestAnswer = best ?: Answer("", 0, 0, Double.NEGATIVE_INFINITY, nullScore)
        val none = rules.unanswerable && nullScore - bestAnswer.score > rules.nullThreshold
        return if (none) Answer("", 0, 0, bestAnswer.score, nullScore)
        else bestAnswer.copy(nullScore = nullScore)
    }

    private fun answer(question: Question, first: Int, last: Int, score: Double): Answer {
        val start = question.pieces.starts[first]
        val end = question.pieces.ends[last]
        // A piece of an order that decomposition changed may end before another one begins.
        val text = if (start < end) question.context.substring(start, end) else ""
        return Answer(text, start, end, score, 0.0)
    }

    /** The places of the largest logits, largest first, of equal ones (0 and -0, too) the first. */
    private fun largest(logits: FloatArray, textStart: Int, places: List<Int>): List<Int> =
        places.sortedByDescending { logits[textStart + it] + 0f }.take(rules.nBest)

    companion object {
        const val START = "start_logits"
        const val END = "end_logits"
    }
}
