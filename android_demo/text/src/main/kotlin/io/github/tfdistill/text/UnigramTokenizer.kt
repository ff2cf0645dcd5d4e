package io.github.tfdistill.text

/**
 * The Unigram tokenizer of XLM-RoBERTa and its relatives, token by token that of the library
 * `tokenizers`.
 *
 * A special token that a user typed ("</s>") is that token, as there. Time is proportional to the
 * length of the text.
 *
 * @param scores of the tokens, in the order of their ids
 * @param added tokens that are looked for in the text as it is
 */
internal class UnigramTokenizer(
    vocabulary: Vocabulary,
    private val scores: DoubleArray,
    private val charsMap: CharsMap,
    private val added: List<AddedToken>,
    truncation: Truncation,
    prompt: String,
) : Tokenizer(vocabulary, separators = 2, secondType = 0, truncation, prompt) {
    private val unknownScore = scores.min() - UNKNOWN_PENALTY

    override fun pieces(text: String): Pieces {
        val hasPairs = text.any { it.isSurrogate() } // halves of them, too
        val clean = if (hasPairs) text.replace(Regex("\\p{Cs}"), "\uFFFD") else text
        val pieces = PieceList()
        var begin = 0
        var index = 0
        while (index < clean.length) {
            val token =
                added
                    .filter { clean.startsWith(it.content, index) }
                    .maxByOrNull { it.content.length }
            if (token == null) {
                index++
                continue
            }
            var start = index
            while (token.lstrip && start > begin && clean[start - 1].code in WHITE_SPACE) start--
            cut(clean, begin, start, pieces)
            index += token.content.length
            pieces.add(token.id, start, index)
            begin = index
        }
        cut(clean, begin, clean.length, pieces)
        return pieces.toPieces()
    }

    /** Cuts what stands between added tokens: words, each with the mark of a blank before it. */
    private fun cut(text: String, from: Int, to: Int, pieces: PieceList) {
        val letters = charsMap.normalize(text, from, to)
        val marked = StringBuilder()
        val places = Growing(letters.text.length)
        var isFirst = true
        for ((index, letter) in letters.text.withIndex()) {
            val blank = letter.code in WHITE_SPACE
            if (!blank && isFirst && letter != MARK) {
                marked.append(MARK)
                places.add(letters.places[index])
            }
            if (!blank) {
                marked.append(letter)
                places.add(letters.places[index])
            }
            isFirst = blank
        }
        var word = 0
        while (word < marked.length) {
            val next = marked.indexOf(MARK, word + 1).let { if (it < 0) marked.length else it }
            val ends = bestEnds(marked.substring(word, next))
            var begin = word
            while (begin < next) {
                val end = word + ends[begin - word]
                val id = vocabulary.id(marked.substring(begin, end)) ?: vocabulary.unknownId
                val last = text.offsetByCodePoints(places[end - 1], 1)
                pieces.add(id, places[begin], last)
                begin = end
            }
            word = next
        }
    }

    /**
     * Finds the pieces of the greatest sum of scores, and says where each ends by where it begins.
     *
     * Neighbouring characters without a piece are one. Of equal sums the one counts whose last
     * piece begins first, as in the library.
     */
    private fun bestEnds(word: String): IntArray {
        val sums = DoubleArray(word.length + 1) { Double.NEGATIVE_INFINITY }
        val begins = IntArray(word.length + 1)
        val unknown = BooleanArray(word.length + 1)
        sums[0] = 0.0
        for (begin in word.indices) {
            if (sums[begin].isInfinite()) continue // between the halves of a pair
            val next = begin + Character.charCount(word.codePointAt(begin))
            var hash = 0
            for (end in begin + 1..minOf(word.length, begin + maxOf(vocabulary.longest, 2))) {
                hash = 31 * hash + word[end - 1].code // as hashCode of a String
                val id = vocabulary.find(word, begin, end, hash)
                if (id < 0 && end != next) continue
                val sum = sums[begin] + if (id < 0) unknownScore else scores[id]
                if (sum <= sums[end]) continue
                sums[end] = sum
                begins[end] = begin
                unknown[end] = id < 0 || id == vocabulary.unknownId
            }
        }
        val ends = IntArray(word.length + 1)
        var end = word.length
        while (end > 0) {
            var begin = begins[end]
            while (unknown[end] && begin > 0 && unknown[begin]) begin = begins[begin]
            ends[begin] = end
            end = begin
        }
        return ends
    }

    private companion object {
        const val UNKNOWN_PENALTY = 10.0
        const val MARK = '\u2581'
        val WHITE_SPACE = CharacterClass("9-D 20 85", UnicodeClasses.WHITE_SPACE)
    }
}
