package io.github.tfdistill.text

/**
 * BERT's tokenizer, token by token that of `tfdistill/tokenization/wordpiece.py`.
 *
 * A special token that a user typed ("[SEP]") is ordinary text: it becomes "[", "sep", "]". Time
 * and memory are proportional to the length of the text.
 */
public class WordPieceTokenizer
@JvmOverloads
constructor(
    vocabulary: Vocabulary,
    lowerCase: Boolean,
    truncation: Truncation = Truncation.END,
    prompt: String = "",
) : Tokenizer(vocabulary, separators = 1, secondType = 1, truncation, prompt) {
    private val normalizer = Normalizer(lowerCase)

    /** Splits a text into BERT's words, normalised. */
    internal fun words(text: String): List<String> {
        val letters = normalizer.letters(text)
        val words = ArrayList<String>()
        forEachWord(letters) { from, to -> words.add(String(letters.codePoints, from, to - from)) }
        return words
    }

    override fun pieces(text: String): Pieces {
        val letters = normalizer.letters(text)
        val pieces = PieceList()
        forEachWord(letters) { from, to ->
            splitWord(letters.codePoints, from, to) { id, first, end ->
                pieces.add(id, letters.starts[first], letters.ends[end - 1])
            }
        }
        return pieces.toPieces()
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
        fun read(content: ByteArray, record: TokenizerRecord): WordPieceTokenizer =
            record.run {
                WordPieceTokenizer(Vocabulary.parse(content), lowerCase, truncation, prompt)
            }

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
