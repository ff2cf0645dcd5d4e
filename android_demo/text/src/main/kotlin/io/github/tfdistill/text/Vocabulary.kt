package io.github.tfdistill.text

/**
 * The tokens of a model, in the order of their ids.
 *
 * They lie one behind another in one text, and a table of ids finds them: arrays without objects.
 *
 * @param special the token that fills a row, the one of what has none, the ones that begin and end
 *   every text, and others that have to be there
 * @throws BundleException if a token is there twice, or a special one is missing
 */
public class Vocabulary internal constructor(tokens: List<String>, special: List<String>) {
    private val text: String
    private val ends = IntArray(tokens.size)
    private val slots = IntArray(Integer.highestOneBit(tokens.size + 1) shl 2) // ids + 1

    /** How many tokens there are. */
    public val size: Int
        get() = ends.size

    /** Chars of the longest token. */
    internal var longest: Int = 0
        private set

    init {
        val all = StringBuilder()
        for ((id, token) in tokens.withIndex()) {
            all.append(token)
            ends[id] = all.length
            if (token.length > longest) longest = token.length
        }
        text = all.toString()
        for ((id, token) in tokens.withIndex()) {
            val slot = slot(token, 0, token.length, token.hashCode())
            val earlier = slots[slot]
            if (earlier > 0)
                throw malformed("each token once", "'$token' on $earlier and ${id + 1}")
            slots[slot] = id + 1
        }
        val missing = special.filter { id(it) == null }
        if (missing.isNotEmpty()) {
            throw malformed("the tokens $special", "$size tokens without $missing")
        }
    }

    /** Id of the token that fills a row. */
    public val padId: Int = idOf(special[0])

    /** Id of the token of what has none. */
    public val unknownId: Int = idOf(special[1])

    /** Id of the token that begins every text. */
    public val clsId: Int = idOf(special[2])

    /** Id of the token that ends every text. */
    public val sepId: Int = idOf(special[3])

    /** The token with an id. */
    public fun token(id: Int): String = text.substring(start(id), ends[id])

    /** The id of a token, or null. */
    public fun id(token: String): Int? = idOf(token).takeIf { it >= 0 }

    private fun idOf(token: String) = find(token, 0, token.length, token.hashCode())

    /** The id of the token that stands in [text], whose hash code is [hash]; -1 if it is none. */
    internal fun find(text: CharSequence, from: Int, to: Int, hash: Int): Int =
        slots[slot(text, from, to, hash)] - 1

    private fun slot(word: CharSequence, from: Int, to: Int, hash: Int): Int {
        var slot = (hash * SPREAD) ushr (Integer.numberOfLeadingZeros(slots.size) + 1)
        while (slots[slot] > 0) {
            val id = slots[slot] - 1
            val length = ends[id] - start(id)
            if (length == to - from && text.regionMatches(start(id), word, from, length)) break
            slot = (slot + 1) and (slots.size - 1)
        }
        return slot
    }

    private fun start(id: Int) = if (id > 0) ends[id - 1] else 0

    public companion object {
        /** What a token begins with that goes on with a word. */
        internal const val SUFFIX = "##"
        private const val SPREAD = -0x61c88647 // 2^32 over the golden ratio
        private val SPECIAL = listOf("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

        /**
         * Reads vocab.txt.
         *
         * @throws BundleException if it is not UTF-8, has an empty line or a token twice, or lacks
         *   a special token.
         */
        public fun parse(content: ByteArray): Vocabulary {
            val text = decode(content).removePrefix("\uFEFF").replace("\r\n", "\n")
            val tokens = text.removeSuffix("\n").split('\n')
            val empty = tokens.indexOf("")
            if (empty >= 0) throw malformed("a token on each line", "none on ${empty + 1}")
            return Vocabulary(tokens, SPECIAL)
        }

        /** Decodes UTF-8. */
        internal fun decode(content: ByteArray): String {
            val text = String(content, Charsets.UTF_8)
            if ('\uFFFD' !in text || text.toByteArray().contentEquals(content)) return text
            throw malformed("UTF-8 text", "other bytes")
        }

        private fun malformed(expected: String, received: String) =
            BundleException(BundleFault.MALFORMED, explain("vocabulary", expected, received))
    }
}
