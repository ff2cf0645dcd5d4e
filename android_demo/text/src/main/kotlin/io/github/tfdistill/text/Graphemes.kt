package io.github.tfdistill.text

import io.github.tfdistill.text.GraphemeClass.*

/** Finds extended grapheme clusters (UAX 29), one code point after another. */
internal class Graphemes {
    private var last = 0
    private var before = CONTROL // as if one ended: a text begins with a cluster
    private var emoji = 0 // 1 after a pictograph, 2 after one with a joiner
    private var conjunct = 0 // 1 after a consonant, 2 after one with a linker
    private var flags = 0

    /** Whether the next code point belongs to the cluster of those before it. */
    fun joins(point: Int): Boolean {
        val kind = GraphemeClass.of(point)
        val joined =
            when {
                before == CONTROL || kind == CONTROL -> last == '\r'.code && point == '\n'.code
                kind in EXTEND..SPACING || before == PREPEND -> true
                kind == CONSONANT -> conjunct == 2
                kind == PICTOGRAPH -> emoji == 2
                kind == REGIONAL -> flags % 2 == 1
                before == LEADING -> kind in LEADING..SYLLABLE
                before == VOWEL || before == OPEN_SYLLABLE -> kind == VOWEL || kind == FINAL
                before == SYLLABLE || before == FINAL -> kind == FINAL
                else -> false
            }
        emoji =
            when {
                kind == PICTOGRAPH -> 1
                emoji == 1 && kind == JOINER -> 2
                else -> if (kind in EXTEND..LINKER) emoji % 2 else 0
            }
        conjunct =
            when (kind) {
                CONSONANT -> 1
                LINKER -> if (conjunct > 0) 2 else 0
                EXTEND,
                JOINER -> conjunct
                else -> 0
            }
        flags = if (kind == REGIONAL) flags + 1 else 0
        last = point
        before = kind
        return joined
    }

    companion object {
        /** Calls [use] with the begin and the end of each cluster of [text]. */
        inline fun forEach(text: String, from: Int, to: Int, use: (Int, Int) -> Unit) {
            val clusters = Graphemes()
            var begin = from
            var index = from
            while (index < to) {
                val point = text.codePointAt(index)
                if (!clusters.joins(point) && begin < index) {
                    use(begin, index)
                    begin = index
                }
                index += Character.charCount(point)
            }
            if (begin < to) use(begin, to)
        }
    }
}
