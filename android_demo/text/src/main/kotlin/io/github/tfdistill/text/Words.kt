package io.github.tfdistill.text

/** Words one after another, each of which gets a tag, as a row that the model reads. */
internal class TaggedInput(val encoding: Encoding, val firstPieces: IntArray) {
    companion object {
        private const val NEXT_LINE = '\u0085' // white space for Python, not for Kotlin

        /** The words between white space. */
        fun words(text: String): List<String> {
            val blanked = text.map { if (it.isWhitespace() || it == NEXT_LINE) ' ' else it }
            return blanked.joinToString("").split(' ').filter { it.isNotEmpty() }
        }

        /**
         * Encodes words one by one; a word without a piece becomes an unknown one, so that every
         * word is answered for.
         *
         * Words that do not fit into a row go on in the next; only a single word that is longer by
         * itself is cut.
         */
        fun windows(tokenizer: Tokenizer, words: List<String>, maxLength: Int): List<TaggedInput> {
            val unknown = intArrayOf(tokenizer.vocabulary.unknownId)
            val room = maxLength - 2
            val windows = ArrayList<TaggedInput>()
            var ids = Growing()
            var first = Growing()
            var whole = 2

            fun end() {
                val row = tokenizer.join(ids.toArray(), null, maxLength)
                windows += TaggedInput(Encoding(row.ids, row.types, whole), first.toArray())
            }

            for (word in words) {
                val pieces = tokenizer.pieces(word).ids.let { if (it.isEmpty()) unknown else it }
                if (ids.size + minOf(pieces.size, room) > room) {
                    end()
                    ids = Growing()
                    first = Growing()
                    whole = 2
                }
                first.add(ids.size + 1)
                whole += pieces.size
                for (id in pieces.take(room)) ids.add(id)
            }
            end()
            return windows
        }
    }
}
