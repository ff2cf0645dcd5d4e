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
 * An example: `[CLS] text [SEP]`, or `[CLS] text [SEP] pair [SEP]` with token types 0 and 1.
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

/**
 * BERT's tokenizer, token by token that of `tfdistill/tokenization/wordpiece.py`.
 *
 * A special token that a user typed ("[SEP]") is ordinary text: it becomes "[", "sep", "]". Time
 * and memory are proportional to the length of the text.
 */
public class Tokenizer
@JvmOverloads
constructor(
    public val vocabulary: Vocabulary,
    lowerCase: Boolean,
    private val truncation: Truncation = Truncation.END,
) {
    private val normalizer = Normalizer(lowerCase)

    /** Splits a text into BERT's words, normalised. */
    internal fun words(text: String): List<String> {
        val letters = normalizer.letters(text)
        val words = ArrayList<String>()
        forEachWord(letters) { from, to -> words.add(String(letters.codePoints, from, to - from)) }
        return words
    }

    /** Tokenizes a text and says where in it each piece stands. */
    public fun pieces(text: String): Pieces {
        val letters = normalizer.letters(text)
        val ids = Growing()
        val starts = Growing()
        val ends = Growing()
        forEachWord(letters) { from, to ->
            splitWord(letters.codePoints, from, to) { id, first, end ->
                ids.add(id)
                starts.add(letters.starts[first])
                ends.add(letters.ends[end - 1])
            }
        }
        return Pieces(ids.toArray(), starts.toArray(), ends.toArray())
    }

    /**
     * Encodes one text or pair.
     *
     * @param pair a second text, which may be empty; null for none
     * @param maxLength the most tokens, special ones included; of a pair the longer text is cut
     *   first, each text where [Truncation] says
     */
    public fun encode(text: String, pair: String? = null, maxLength: Int): Encoding {
        return join(pieces(text).ids, pair?.let(::pieces)?.ids, maxLength)
    }

    /** Puts special tokens around pieces and cuts what is too long. */
    internal fun join(first: IntArray, second: IntArray?, maxLength: Int): Encoding {
        val special = if (second == null) 2 else 3
        require(maxLength >= special) { explain("maxLength", "at least $special", maxLength) }
        val room = maxLength - special
        val (left, right) = Truncation.lengths(first.size, second?.size ?: 0, room)
        val ids = IntArray(left + right + special) { vocabulary.sepId }
        val types = IntArray(ids.size)
        ids[0] = vocabulary.clsId
        truncation.copy(first, left, ids, 1)
        if (second != null) {
            truncation.copy(second, right, ids, left + 2)
            types.fill(1, left + 2)
        }
        return Encoding(ids, types, first.size + (second?.size ?: 0) + special)
    }

    private inline fun forEachWord(letters: Letters, use: (Int, Int) -> Unit) {
        var begin = 0
        for (index in 0 until letters.size) {
            val point = letters.codePoints[index]
            val space =
                point == ' '.code || point == '\t'.code || point == '\n'.code || point == '\r'.code
            if (!space && point !in ALONE) continue
            if (begin < index) use(begin, index)
            if (!space) use(index, index + 1)
            begin = index + 1
        }
        if (begin < letters.size) use(begin, letters.size)
    }

    /** WordPiece: the longest token first; a word that is too long or has no pieces is [UNK]. */
    private inline fun splitWord(
        points: IntArray,
        from: Int,
        to: Int,
        use: (id: Int, first: Int, end: Int) -> Unit,
    ) {
        val pieces = if (to - from > MAX_CHARACTERS) null else match(points, from, to)
        if (pieces == null) {
            use(vocabulary.unknownId, from, to)
            return
        }
        var first = from
        for (i in 0 until pieces.size step 2) {
            use(pieces[i], first, pieces[i + 1])
            first = pieces[i + 1]
        }
    }

    /** The ids of a word's pieces, each followed by where it ends; null if one is not known. */
    private fun match(points: IntArray, from: Int, to: Int): IntArray? {
        val pieces = Growing()
        var begin = from
        while (begin < to) {
            var end = minOf(to, begin + vocabulary.longest)
            var id: Int? = null
            while (end > begin) {
                val part = String(points, begin, end - begin)
                id = vocabulary.id(if (begin == from) part else Vocabulary.SUFFIX + part)
                if (id != null) break
                end--
            }
            if (id == null) return null
            pieces.add(id)
            pieces.add(end)
            begin = end
        }
        return pieces.toArray()
    }

    internal companion object {
        /** A longer word is [UNK]. */
        const val MAX_CHARACTERS = 100
        private val ALONE =
            CharacterClass(
                UnicodeClasses.ASCII_PUNCTUATION,
                UnicodeClasses.PUNCTUATION,
                UnicodeClasses.CJK,
            )
    }
}
