package io.github.tfdistill.text

/**
 * Running text whose words get tags, as windows that the model reads; `encode_words` in
 * `tfdistill/data/tagged_words.py` is the rule.
 *
 * @property rows of each window the tokens that answer for words
 * @property firstWords of each token that answers, in their order, its first word; then how many
 *   words there are
 */
internal class TaggedText(
    tokenizer: Tokenizer,
    private val text: String,
    maxLength: Int,
    val words: WordPlaces = WordPlaces.of(text),
) {
    val windows: List<Window>
    val rows: List<List<Int>>
    val firstWords: IntArray

    init {
        val pieces = tokenizer.pieces(text)
        val ids = Growing(pieces.size)
        val answering = Growing()
        val firsts = Growing()
        var next = 0 // the next piece of the tokenizer
        var reached = 0 // where the pieces up to it end
        for (word in words.starts.indices) {
            while (next < pieces.size) {
                reached = maxOf(reached, pieces.ends[next])
                if (reached > words.starts[word]) break
                ids.add(pieces.ids[next++])
            }
            if (answering.size == 0 || answering[answering.size - 1] < ids.size) {
                answering.add(ids.size)
                firsts.add(word)
            }
            // A word without a piece becomes an unknown one, so that every word is answered for.
            val isLost = next == pieces.size || pieces.starts[next] >= words.ends[word]
            if (isLost) ids.add(tokenizer.vocabulary.unknownId)
        }
        while (next < pieces.size) ids.add(pieces.ids[next++])
        firstWords = firsts.apply { add(words.starts.size) }.toArray()
        val (all, room) = ids.toArray() to maxLength - 2
        windows =
            Windows.cut(all.size, room, maxOf(1, room / 2)) { first, count ->
                val part = all.copyOfRange(first, first + count)
                Window(tokenizer.join(part, null, maxLength), 1, first, count)
            }
        val best = Windows.best(windows, all.size)
        rows = windows.map { ArrayList<Int>() }
        for (piece in answering.toArray()) {
            val window = windows[best[piece]]
            rows[best[piece]].add(window.textStart + piece - window.first)
        }
    }

    /** The words, as they stand in the text. */
    fun words(): List<String> =
        words.starts.indices.map { text.substring(words.starts[it], words.ends[it]) }

    /** The words of some tokens as an entity. */
    fun entity(label: String, part: TagPath.Part, sure: Boolean?): Entity {
        val start = words.starts[firstWords[part.first]]
        val end = words.ends[firstWords[part.end] - 1]
        return Entity(label, start, end, text.substring(start, end), part.probability, sure)
    }

    /** Has the tag O alone for what holds a word of one of these entities. */
    fun exclude(entities: List<Entity>, labels: List<String>, scores: List<DoubleArray>) {
        var next = 0
        for ((token, row) in scores.withIndex()) {
            for (word in firstWords[token] until firstWords[token + 1]) {
                while (next < entities.size && entities[next].end <= words.starts[word]) next++
                if (next == entities.size || entities[next].start >= words.ends[word]) continue
                for (tag in labels.indices) row[tag] = if (labels[tag] == OUTSIDE) 0.0 else NEVER
            }
        }
    }

    private companion object {
        const val OUTSIDE = "O"
        const val NEVER = -1e4 // a logit
    }
}
