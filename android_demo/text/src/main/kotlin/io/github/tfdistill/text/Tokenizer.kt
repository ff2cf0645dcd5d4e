package io.github.tfdistill.text

/**
 * The pieces of a text, without special tokens and not cut.
 *
 * `text.substring(starts[i], ends[i])` is piece i before normalisation, with whatever normalisation
 * dropped inside it.
 */
public class Pieces
internal constructor(
    public val ids: IntArray,
    public val starts: IntArray,
    public val ends: IntArray,
) {
    /** How many pieces there are. */
    public val size: Int
        get() = ids.size
}

/**
 * An example: `[CLS] text [SEP]`, or `[CLS] text [SEP] pair [SEP]` with token types 0 and 1; of a
 * Unigram tokenizer `<s> text </s>`, or `<s> text </s> </s> pair </s>` with types 0.
 *
 * @property ids of the tokens, without padding
 * @property types 0 for the first text, 1 for the second
 * @property wholeLength how many tokens it would have if nothing had been cut
 */
public class Encoding
internal constructor(
    public val ids: IntArray,
    public val types: IntArray,
    public val wholeLength: Int,
) {
    /** How many tokens there are, special ones included. */
    public val size: Int
        get() = ids.size

    /** Whether tokens were left out because they are too many. */
    public val isCut: Boolean
        get() = wholeLength > size
}

/** Pieces that are found one after another. */
internal class PieceList {
    private val ids = Growing()
    private val starts = Growing()
    private val ends = Growing()

    fun add(id: Int, start: Int, end: Int) {
        ids.add(id)
        starts.add(start)
        ends.add(end)
    }

    fun toPieces() = Pieces(ids.toArray(), starts.toArray(), ends.toArray())
}

/**
 * How a text becomes ids.
 *
 * @property vocabulary the tokens of the model
 * @property separators how many tokens stand between the two texts of a pair
 * @param secondType the token type of the second text
 * @param prompt what stands before every text, or first text, that is encoded
 */
public abstract class Tokenizer
internal constructor(
    public val vocabulary: Vocabulary,
    internal val separators: Int,
    private val secondType: Int,
    private val truncation: Truncation,
    private val prompt: String,
) {
    /** The fewest tokens of a pair. */
    internal val leastOfPair: Int
        get() = 2 + separators

    /** Tokenizes a text, without a prompt, and says where in it each piece stands. */
    public abstract fun pieces(text: String): Pieces

    /**
     * Encodes one text or pair, with the prompt of the model before it.
     *
     * @param pair a second text, which may be empty; null for none
     * @param maxLength the most tokens, special ones included; of a pair the longer text is cut
     *   first, each text where [Truncation] says
     */
    public fun encode(text: String, pair: String? = null, maxLength: Int): Encoding {
        return join(pieces(prompt + text).ids, pair?.let(::pieces)?.ids, maxLength)
    }

    /** Puts special tokens around pieces and cuts what is too long. */
    internal fun join(first: IntArray, second: IntArray?, maxLength: Int): Encoding {
        val special = if (second == null) 2 else leastOfPair
        require(maxLength >= special) { explain("maxLength", "at least $special", maxLength) }
        val room = maxLength - special
        val (left, right) = Truncation.lengths(first.size, second?.size ?: 0, room)
        val ids = IntArray(left + right + special) { vocabulary.sepId }
        val types = IntArray(ids.size)
        ids[0] = vocabulary.clsId
        truncation.copy(first, left, ids, 1)
        if (second != null) {
            truncation.copy(second, right, ids, left + 1 + separators)
            types.fill(secondType, left + 1 + separators)
        }
        return Encoding(ids, types, first.size + (second?.size ?: 0) + special)
    }

    internal companion object {
        /** What reads the vocabulary of each kind that a manifest may name. */
        val KINDS: Map<String, (ByteArray, TokenizerRecord) -> Tokenizer> =
            mapOf(
                TokenizerRecord.WORDPIECE to WordPieceTokenizer.Companion::read,
                "unigram" to UnigramFile.Companion::read,
            )
    }
}
