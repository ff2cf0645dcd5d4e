package io.github.tfdistill.text

/** A sentence of words, each of which gets a tag: as many words as fit. */
internal class TaggedInput(
    val encoding: Encoding,
    val words: List<String>,
    val firstPieces: IntArray,
) {
    companion object {
        private val SPACES = Regex("\\s+")

        /** Splits at white space and encodes as [of] does. */
        fun of(tokenizer: Tokenizer, text: String, maxLength: Int): TaggedInput =
            of(tokenizer, text.trim().split(SPACES).filter { it.isNotEmpty() }, maxLength)

        /**
         * Encodes words one by one; a word without a piece becomes [UNK], so that every word is
         * answered for.
         *
         * Words that do not fit whole are left out; only a first word that is longer by itself is
         * cut.
         */
        fun of(tokenizer: Tokenizer, words: List<String>, maxLength: Int): TaggedInput {
            val unknown = intArrayOf(tokenizer.vocabulary.unknownId)
            val room = maxLength - 2
            val ids = Growing()
            val first = Growing()
            var whole = 2
            var full = false
            for (word in words) {
                val pieces = tokenizer.pieces(word).ids.let { if (it.isEmpty()) unknown else it }
                whole += pieces.size
                full = full || ids.size + minOf(pieces.size, room) > room
                if (full) continue
                first.add(ids.size + 1)
                for (id in pieces.take(room)) ids.add(id)
            }
            val cut = tokenizer.join(ids.toArray(), null, maxLength)
            val encoding = Encoding(cut.ids, cut.types, whole)
            return TaggedInput(encoding, words.take(first.size), first.toArray())
        }
    }
}
