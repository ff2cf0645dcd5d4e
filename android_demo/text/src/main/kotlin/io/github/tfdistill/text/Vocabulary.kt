package io.github.tfdistill.text

import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction

/**
 * The tokens of a model, in the order of their ids.
 *
 * @property padId of the token that fills a row
 * @property unknownId of the token of what has none
 * @property clsId of the token that begins every text
 * @property sepId of the token that ends every text
 */
public class Vocabulary
internal constructor(
    private val tokens: List<String>,
    private val ids: Map<String, Int>,
    public val padId: Int,
    public val unknownId: Int,
    public val clsId: Int,
    public val sepId: Int,
) {
    /** How many tokens there are. */
    public val size: Int
        get() = tokens.size

    /** Chars of the longest token, without the mark of a suffix. */
    internal val longest: Int by lazy { tokens.maxOf { it.removePrefix(SUFFIX).length } }

    /** The token with an id. */
    public fun token(id: Int): String = tokens[id]

    /** The id of a token, or null. */
    public fun id(token: String): Int? = ids[token]

    public companion object {
        /** What a token begins with that goes on with a word. */
        internal const val SUFFIX = "##"

        /** The token of what has none. */
        public const val UNKNOWN: String = "[UNK]"
        private val SPECIAL = listOf("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")

        /**
         * Reads vocab.txt.
         *
         * @throws BundleException if it is not UTF-8, has an empty line or a token twice, or lacks
         *   a special token.
         */
        public fun parse(content: ByteArray): Vocabulary {
            val text = decode(content).removePrefix("\uFEFF").replace("\r\n", "\n")
            val tokens = text.removeSuffix("\n").split('\n')
            val ids = HashMap<String, Int>(2 * tokens.size)
            for ((index, token) in tokens.withIndex()) {
                if (token.isEmpty()) throw malformed("a token on each line", "none on ${index + 1}")
                val earlier = ids.put(token, index) ?: continue
                throw malformed("each token once", "'$token' on ${earlier + 1} and ${index + 1}")
            }
            val missing = SPECIAL - ids.keys
            if (missing.isNotEmpty()) {
                throw malformed("the tokens $SPECIAL", "${tokens.size} tokens without $missing")
            }
            val (pad, unknown, begin, end) = SPECIAL.map(ids::getValue)
            return Vocabulary(tokens, ids, pad, unknown, begin, end)
        }

        private fun decode(content: ByteArray): String =
            try {
                Charsets.UTF_8.newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(content))
                    .toString()
            } catch (error: CharacterCodingException) {
                throw malformed("UTF-8 text", "other bytes ($error)")
            }

        private fun malformed(expected: String, received: String) =
            BundleException(BundleFault.MALFORMED, explain("vocabulary", expected, received))
    }
}
