package io.github.tfdistill.text

/**
 * The Unigram tokenizer of XLM-RoBERTa and its relatives, token by token that of the library
 * `tokenizers`.
 *
 * A special token that a user typed ("</s>") is that token, as there. Time is proportional to the
 * length of the text.
 */
internal class UnigramTokenizer(
    override val vocabulary: Vocabulary,
    private val pieces: UnigramPieces,
    private val charsMap: CharsMap,
    private val added: List<AddedToken>,
    truncation: Truncation = Truncation.END,
) : Tokenizer(truncation) {
    override val separators: Int = 2
    override val secondType: Int = 0
    private val firstLetters = added.map { it.content[0] }.toSet()

    override fun pieces(text: String): Pieces {
        val ids = Growing()
        val starts = Growing()
        val ends = Growing()
        fun add(id: Int, start: Int, end: Int) {
            ids.add(id)
            starts.add(start)
            ends.add(end)
        }
        var begin = 0
        var index = 0
        while (index < text.length) {
            val token = if (text[index] in firstLetters) tokenAt(text, index) else null
            if (token == null) {
                index++
                continue
            }
            var start = index
            while (
                token.takesBlanks && start > begin && text[start - 1].code in WHITE_SPACE
            ) start--
            cut(text, begin, start, ::add)
            index += token.content.length
            add(token.id, start, index)
            begin = index
        }
        cut(text, begin, text.length, ::add)
        return Pieces(ids.toArray(), starts.toArray(), ends.toArray())
    }

    private fun tokenAt(text: String, index: Int): AddedToken? =
        added.filter { text.startsWith(it.content, index) }.maxByOrNull { it.content.length }

    private fun cut(text: String, from: Int, to: Int, add: (Int, Int, Int) -> Unit) {
        if (from == to) return
        val letters = charsMap.letters(text, from, to)
        var begin = 0
        for (index in 0..letters.size) {
            if (index < letters.size && letters.codePoints[index] !in WHITE_SPACE) continue
            if (begin < index) cutWord(letters, begin, index, add)
            begin = index + 1
        }
    }

    /** Cuts a word, before which the mark of a blank is put unless it begins with one. */
    private fun cutWord(letters: Letters, from: Int, to: Int, add: (Int, Int, Int) -> Unit) {
        val more = if (letters.codePoints[from] == BLANK) 0 else 1
        val points = IntArray(to - from + more)
        points[0] = BLANK
        letters.codePoints.copyInto(points, more, from, to)
        var begin = 0
        for (index in 1..points.size) {
            if (index < points.size && points[index] != BLANK) continue
            pieces.forEachPiece(points, begin, index) { id, first, end ->
                val last = from + end - 1 - more
                add(
                    id,
                    letters.starts[from + maxOf(first - more, 0)],
                    letters.ends[maxOf(last, from)],
                )
            }
            begin = index
        }
    }

    /** A token that is looked for in the text as it is, with the white space before it or not. */
    internal class AddedToken(val content: String, val id: Int, val takesBlanks: Boolean)

    private companion object {
        const val BLANK = 0x2581
        val WHITE_SPACE = CharacterClass("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
    }
}
