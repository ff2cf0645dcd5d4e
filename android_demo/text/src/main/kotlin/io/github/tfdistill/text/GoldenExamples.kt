package io.github.tfdistill.text

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.Transient
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull

/**
 * An example of golden.json, as far as a benchmark needs it.
 *
 * @property outputs of the exported file on a computer, nested as the task's tensors are
 * @property firstPieces the tokens whose outputs are the tags of words; empty where not listed
 */
@Serializable
internal data class GoldenExample(
    val text: String? = null,
    val pair: String? = null,
    @SerialName("input_ids") val inputIds: List<Int>,
    @SerialName("token_type_ids") val tokenTypeIds: List<Int>,
    val outputs: JsonElement = JsonNull,
    @Transient val firstPieces: List<Int> = emptyList(),
)

/** Real inputs of a model: the same as `tfdistill benchmark` takes on a host. */
public class GoldenExamples internal constructor(internal val examples: List<GoldenExample>) {
    /** How many there are. */
    public val size: Int
        get() = examples.size

    /**
     * The examples that a length is measured with, cut to it.
     *
     * Those for which it is the shortest length that fits; if there are none, the shorter ones; if
     * there are none either, longer ones whose last token is kept.
     */
    public fun forLength(lengths: List<Int>, length: Int): List<Encoding> {
        val shorter = lengths.filter { it < length }.maxOrNull() ?: 0
        val ranges = listOf(shorter + 1..length, 1..length, 1..Int.MAX_VALUE)
        val chosen =
            ranges
                .map { range -> examples.filter { it.inputIds.size in range } }
                .first { it.isNotEmpty() }
        return chosen.take(MOST_EXAMPLES).map {
            Encoding(cut(it.inputIds, length), cut(it.tokenTypeIds, length), it.inputIds.size)
        }
    }

    /** Texts, with their pairs, whose way to an answer is measured. */
    public val texts: List<Pair<String, String?>> =
        examples.mapNotNull { example -> example.text?.let { it to example.pair } }.take(MOST_TEXTS)

    /**
     * The [texts] as texts of so many words: each begins at one of them and continues with those
     * after it; a pair has half of the words on either side.
     */
    public fun textsOf(words: Int): List<Pair<String, String?>> {
        val parts =
            texts.map { (text, pair) -> SPACE.split("$text ${pair.orEmpty()}").filter { it != "" } }
        if (parts.all { it.isEmpty() }) return listOf()
        return texts.mapIndexed { start, (_, pair) ->
            val endless = generateSequence(start) { (it + 1) % parts.size }.flatMap { parts[it] }
            val drawn = endless.take(words).toList()
            val half = if (pair == null) words else words / 2
            val second = pair?.let { drawn.drop(half).joinToString(" ") }
            drawn.take(half).joinToString(" ") to second
        }
    }

    public companion object {
        private val SPACE = Regex("[\\s\\p{Z}]+")
        private const val MOST_EXAMPLES = 64
        private const val MOST_TEXTS = 32
        private val json = Json { ignoreUnknownKeys = true } // what other programs need

        @Serializable
        private class Tags(val example: Int, @SerialName("first_pieces") val pieces: List<Int>)

        @Serializable
        private class Content(
            val examples: List<GoldenExample>,
            val sentences: List<Tags> = listOf(),
        )

        /**
         * Reads the golden.json of a bundle.
         *
         * @throws BundleException if there is none, or it has no examples
         */
        public fun read(bundle: Bundle, source: FileSource): GoldenExamples {
            val record = bundle.manifest.goldenFile
            val content = record?.let { source.open(bundle.pathOf(it)).use { it.readBytes() } }
            val golden =
                try {
                    content?.let { json.decodeFromString<Content>(String(it, Charsets.UTF_8)) }
                } catch (error: SerializationException) {
                    throw BundleException(BundleFault.MALFORMED, "golden.json: ${error.message}")
                }
            val pieces = golden?.sentences.orEmpty().associate { it.example to it.pieces }
            val rows =
                golden?.examples.orEmpty().mapIndexed { row, example ->
                    example.copy(firstPieces = pieces[row].orEmpty())
                }
            val examples = rows.filter { it.inputIds.isNotEmpty() }
            if (examples.isEmpty()) {
                val message = explain("golden.json of ${bundle.name}", "examples", "none")
                throw BundleException(BundleFault.UNSUITABLE, message)
            }
            val paired = bundle.task.pair // an empty second text was not recorded
            return GoldenExamples(
                if (paired) examples.map { it.copy(pair = it.pair.orEmpty()) } else examples
            )
        }

        private fun cut(values: List<Int>, length: Int): IntArray {
            if (values.size <= length) return values.toIntArray()
            return (values.take(length - 1) + values.last()).toIntArray()
        }
    }
}
