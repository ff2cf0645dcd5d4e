package io.github.tfdistill.text

import java.nio.ByteBuffer
import kotlin.math.abs
import kotlin.math.round
import kotlin.math.sqrt
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/** A distribution of scores. */
@Serializable internal data class ScoreSpread(val p05: Double, val p50: Double, val p95: Double)

/** How the int8 vectors compare with those that the file gave. */
@Serializable
internal data class IndexChecks(
    @SerialName("num_queries") val numQueries: Int,
    @SerialName("recall_at_10") val recallAt10: Double,
    @SerialName("whole_recall_at_10") val wholeRecallAt10: Double?,
    @SerialName("mean_cosine_error") val meanCosineError: Double,
    @SerialName("max_score_error") val maxScoreError: Double,
)

/** How texts of the index score with one another. */
@Serializable
internal data class IndexScores(
    val others: ScoreSpread?,
    @SerialName("nearest_other") val nearestOther: ScoreSpread?,
    @SerialName("nearest_same") val nearestSame: ScoreSpread?,
)

/** When a label is sure: the margin of each that a sure answer exceeds. */
@Serializable
internal data class IndexRoutes(
    val thresholds: Map<String, Double>,
    @SerialName("num_rows") val numRows: Int,
    val accuracy: Double,
    val coverage: Double,
    val error: Double?,
)

/**
 * The whole of search/index.json; `tfdistill/data/text_index.py` says what each value means.
 *
 * @property count rows
 * @property width features of a row
 * @property threshold the least score of a row that is near enough; null if none was given
 */
@Serializable
@ConsistentCopyVisibility
public data class TextIndexCard
internal constructor(
    @SerialName("format_version") internal val formatVersion: Int,
    internal val name: String,
    internal val created: String,
    @SerialName("tfdistill_version") internal val tfdistillVersion: String,
    internal val model: FileRecord,
    public val count: Int,
    public val width: Int,
    @SerialName("model_width") internal val modelWidth: Int,
    internal val answers: Boolean,
    internal val vectors: FileRecord,
    internal val texts: FileRecord,
    public val threshold: Double?,
    internal val checks: IndexChecks?,
    internal val scores: IndexScores,
    internal val routes: IndexRoutes? = null,
) {
    /** Whether the answers are labels, so that [TextIndex.route] has an answer. */
    public val hasLabels: Boolean
        get() = routes != null

    internal companion object {
        /** The only version that this library reads. */
        const val FORMAT_VERSION = 1
        const val MOST_FEATURES = 4096
    }
}

/**
 * A row that was found.
 *
 * @property row its number, from 0
 * @property score a cosine, -1 to 1
 * @property text of the row
 * @property answer to it; null if the index has none
 */
public data class Match(
    public val row: Int,
    public val score: Double,
    public val text: String,
    public val answer: String?,
)

/**
 * The label of a text.
 *
 * @property label that of the nearest rows
 * @property score the cosine with the nearest of them, -1 to 1
 * @property margin by how much its five rows are nearer, on average, than those of any other label
 * @property sure whether margin and score are above their thresholds
 * @property row the number of the nearest row, from 0
 */
public data class Route(
    public val label: String,
    public val score: Double,
    public val margin: Double,
    public val sure: Boolean,
    public val row: Int,
)

/**
 * Texts by their vectors, each an int8 row, searched one by one: an exact search.
 *
 * Scores are those of Python bit for bit, because all sums are of integers.
 *
 * @property card what the index says of itself
 * @param vectors count rows of width bytes; mapped where the source can
 * @param texts a line of JSON for each row
 * @throws BundleException if these are not so many rows and lines
 */
public class TextIndex
internal constructor(
    public val card: TextIndexCard,
    private val vectors: ByteBuffer,
    private val texts: ByteArray,
) {
    private val width = card.width
    private val squares = IntArray(card.count)
    private val starts = IntArray(card.count + 1)

    init {
        if (vectors.capacity().toLong() != card.count.toLong() * width) {
            throw malformed(card.vectors.file, "${card.count} x $width bytes", vectors.capacity())
        }
        forEachBlock { block, first, rows ->
            for (row in 0 until rows) {
                var sum = 0
                for (at in row * width until (row + 1) * width) sum += block[at] * block[at]
                if (sum == 0) throw malformed("row ${first + row}", "one that is not all 0", 0)
                squares[first + row] = sum
            }
        }
        var line = 0
        for (at in texts.indices) {
            if (texts[at] != LINE_END) continue
            if (++line > card.count) break
            starts[line] = at + 1
        }
        if (line != card.count || starts[line] != texts.size) {
            throw malformed(card.texts.file, "${card.count} lines", line)
        }
    }

    /**
     * Finds the nearest rows, the nearest first; of equal scores the first row first.
     *
     * @param vector that the model gave for a text; its first features count
     * @param count the most rows, at least 1
     * @throws BundleException if the vector has another width, or no direction
     */
    public fun search(vector: FloatArray, count: Int = DEFAULT_COUNT): List<Match> {
        require(count >= 1) { explain("count", "at least 1", count) }
        val room = minOf(count, card.count)
        val rowsFound = IntArray(room)
        val scores = DoubleArray(room)
        var size = 0
        forEachScore(vector) { row, score ->
            if (size < room || score > scores[room - 1]) {
                if (size < room) size++
                var at = size - 1
                while (at > 0 && scores[at - 1] < score) {
                    scores[at] = scores[at - 1]
                    rowsFound[at] = rowsFound[at - 1]
                    at--
                }
                scores[at] = score
                rowsFound[at] = row
            }
        }
        return List(size) {
            val line = line(rowsFound[it])
            Match(rowsFound[it], scores[it], line.text, line.answer)
        }
    }

    /**
     * The label of a text by its nearest rows, and whether it is sure.
     *
     * @param vector that the model gave for the text; its first features count
     * @throws BundleException if the rows have no labels, or as [search]
     */
    public fun route(vector: FloatArray): Route {
        val routes = card.routes ?: throw unsuitable("index", "labels", "answers or texts alone")
        val best = List(names.size) { DoubleArray(NEAREST) { Double.NEGATIVE_INFINITY } }
        val nearest = IntArray(names.size)
        forEachScore(vector) { row, score ->
            val scores = best[labels[row]]
            if (score > scores[0]) nearest[labels[row]] = row
            if (score > scores.last()) {
                var at = NEAREST - 1
                while (at > 0 && scores[at - 1] < score) {
                    scores[at] = scores[at - 1]
                    at--
                }
                scores[at] = score
            }
        }
        val means = best.map { scores -> scores.filter { it.isFinite() }.average() }
        // Of equal means the first row.
        val chosen = names.indices.minWith(compareBy({ -means[it] }, { nearest[it] }))
        val margin = means[chosen] - names.indices.filter { it != chosen }.maxOf { means[it] }
        val (label, score) = names[chosen] to best[chosen][0]
        val near = card.threshold?.let { score >= it } ?: true
        val sure = near && margin > routes.thresholds.getValue(label)
        return Route(label, score, margin, sure, nearest[chosen])
    }

    private val answers by lazy { List(card.count) { line(it).answer.orEmpty() } }
    private val names by lazy {
        val withThreshold = card.routes?.thresholds.orEmpty().keys
        val names = answers.distinct()
        names
            .find { it !in withThreshold }
            ?.let { throw malformed("routes.thresholds", "one for '$it', which rows have", "none") }
        if (names.size < 2) throw malformed("labels", "two or more", names)
        names
    }
    private val labels by lazy { IntArray(card.count) { names.indexOf(answers[it]) } }

    /** Gives the score of each row, the first row first. */
    private inline fun forEachScore(vector: FloatArray, use: (row: Int, score: Double) -> Unit) {
        if (vector.size != card.modelWidth) {
            throw unsuitable("vector", "${card.modelWidth} features", vector.size)
        }
        Answers.checkFinite(vector)
        val query = quantize(vector)
        var square = 0
        for (value in query) square += value * value
        forEachBlock { block, first, rows ->
            for (row in 0 until rows) {
                val product = product(query, block, row * width)
                use(first + row, product / sqrt(square.toDouble() * squares[first + row]))
            }
        }
    }

    /** rint(127 v / max|v|) of the first features. */
    private fun quantize(vector: FloatArray): ByteArray {
        var largest = 0.0
        for (at in 0 until width) largest = maxOf(largest, abs(vector[at].toDouble()))
        if (largest == 0.0) throw unsuitable("vector", "one that is not all 0", 0)
        return ByteArray(width) { round(vector[it] * LARGEST / largest).toInt().toByte() }
    }

    private fun product(query: ByteArray, block: ByteArray, from: Int): Int {
        var sum = 0
        for (at in query.indices) sum += query[at] * block[from + at]
        return sum
    }

    /** Copies rows out of the mapped file, which is much faster than to read them byte by byte. */
    private inline fun forEachBlock(use: (block: ByteArray, first: Int, rows: Int) -> Unit) {
        val most = minOf(card.count, maxOf(1, BLOCK_BYTES / width))
        val block = ByteArray(most * width)
        val source = vectors.duplicate()
        source.position(0)
        var first = 0
        while (first < card.count) {
            val rows = minOf(most, card.count - first)
            source.get(block, 0, rows * width)
            use(block, first, rows)
            first += rows
        }
    }

    @Serializable private class Line(val text: String, val answer: String? = null)

    private fun line(row: Int): Line {
        val content = String(texts, starts[row], starts[row + 1] - starts[row], Charsets.UTF_8)
        val where = "${card.texts.file}, line ${row + 1}"
        val line = BundleJson.decode(where, content, Line.serializer())
        if ((line.answer != null) == card.answers) return line
        throw malformed(where, if (card.answers) "an answer" else "no answer", line.answer)
    }

    private fun malformed(what: String, expected: String, received: Any?) =
        BundleException(BundleFault.MALFORMED, explain(what, expected, received))

    private fun unsuitable(what: String, expected: String, received: Any?) =
        BundleException(BundleFault.UNSUITABLE, explain(what, expected, received))

    internal companion object {
        /** Its folder in that of its bundle, and the name of its card. */
        const val FOLDER = "search"
        const val CARD = "index.json"
        const val DEFAULT_COUNT = 10
        private const val LARGEST = 127.0
        private const val NEAREST = 5 // rows of a label that a text is compared with
        private const val LINE_END = '\n'.code.toByte()
        private const val BLOCK_BYTES = 1 shl 16
    }
}
