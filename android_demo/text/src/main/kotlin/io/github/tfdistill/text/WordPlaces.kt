package io.github.tfdistill.text

/**
 * The words of a running text.
 *
 * @property starts where they begin, rising, UTF-16
 * @property ends where they end, not included
 */
internal class WordPlaces(val starts: IntArray, val ends: IntArray) {
    companion object {
        /**
         * Finds the words of a text by the classes of its characters alone; `find_words` in
         * `tfdistill/tasks/words.py` is the rule.
         */
        fun of(text: String): WordPlaces {
            val starts = Growing()
            val ends = Growing()
            var row = WordClasses.BLANK // the class of the word that goes on here
            var index = 0
            while (index < text.length) {
                val point = text.codePointAt(index)
                val kind = WordClasses.of(point)
                val begins =
                    when (kind) {
                        WordClasses.MARK -> row == WordClasses.BLANK
                        WordClasses.BLANK -> false
                        else -> kind == WordClasses.ALONE || kind != row
                    }
                val cuts = begins || kind == WordClasses.BLANK
                if (cuts && ends.size < starts.size) ends.add(index)
                if (begins) starts.add(index)
                if (kind != WordClasses.MARK) row = kind
                else if (row == WordClasses.BLANK) row = WordClasses.ALONE
                index += Character.charCount(point)
            }
            if (ends.size < starts.size) ends.add(text.length)
            return WordPlaces(starts.toArray(), ends.toArray())
        }

        /** Moves the end of a part of a text past the marks on its last character. */
        fun pastMarks(text: String, end: Int): Int {
            var last = end
            while (
                last < text.length && WordClasses.of(text.codePointAt(last)) == WordClasses.MARK
            ) {
                last += Character.charCount(text.codePointAt(last))
            }
            return last
        }
    }
}
