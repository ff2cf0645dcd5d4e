package io.github.tfdistill.text

/** Extended grapheme clusters of Unicode 16.0 (UAX 29), whatever the system's own tables are. */
internal object Graphemes {
    /** Calls [use] with the begin and the end of each cluster of [points] from [from] to [to]. */
    inline fun forEach(points: IntArray, from: Int, to: Int, use: (Int, Int) -> Unit) {
        var begin = from
        for (index in from + 1 until to) {
            if (!isBreak(points, begin, index)) continue
            use(begin, index)
            begin = index
        }
        if (begin < to) use(begin, to)
    }

    /** Whether a cluster that began at [begin] ends before [index]. */
    fun isBreak(points: IntArray, begin: Int, index: Int): Boolean {
        val before = points[index - 1]
        val after = points[index]
        if (before < FIRST_EXTEND && after < FIRST_EXTEND) {
            return before != '\r'.code || after != '\n'.code
        }
        return when {
            isControl(before) || isControl(after) -> true
            joinsHangul(before, after) -> false
            after == JOINER || after in EXTEND || after in SPACING || before in PREPEND -> false
            after in CONSONANT -> !isLinked(points, begin, index)
            before == JOINER && after in PICTOGRAPHIC -> !isPictograph(points, begin, index - 1)
            before in REGIONAL && after in REGIONAL -> endsWithFlag(points, begin, index)
            else -> true
        }
    }

    private fun isControl(point: Int) = point == '\r'.code || point == '\n'.code || point in CONTROL

    private fun joinsHangul(before: Int, after: Int): Boolean {
        val syllable = before - FIRST_SYLLABLE
        val isSyllable = syllable in 0 until NUM_SYLLABLES
        val openSyllable = isSyllable && syllable % FINALS == 0
        return when {
            before in LEADING ->
                after in LEADING ||
                    after in VOWEL ||
                    after - FIRST_SYLLABLE in 0 until NUM_SYLLABLES
            before in VOWEL || openSyllable -> after in VOWEL || after in FINAL
            before in FINAL || isSyllable -> after in FINAL
            else -> false
        }
    }

    /** Whether a consonant and a linker stand before [index], marks between them aside. */
    private fun isLinked(points: IntArray, begin: Int, index: Int): Boolean {
        var linked = false
        for (place in index - 1 downTo begin) {
            val point = points[place]
            when {
                point in LINKER -> linked = true
                point == JOINER || point != NON_JOINER && point in EXTEND -> Unit
                else -> return linked && point in CONSONANT
            }
        }
        return false
    }

    /** Whether a pictograph stands before [index], marks between them aside. */
    private fun isPictograph(points: IntArray, begin: Int, index: Int): Boolean {
        for (place in index - 1 downTo begin) {
            if (points[place] !in EXTEND) return points[place] in PICTOGRAPHIC
        }
        return false
    }

    /** Whether the halves of flags before [index] are an even number. */
    private fun endsWithFlag(points: IntArray, begin: Int, index: Int): Boolean {
        var first = index
        while (first > begin && points[first - 1] in REGIONAL) first--
        return (index - first) % 2 == 0
    }

    private const val FIRST_EXTEND = 0x300
    private const val JOINER = 0x200D
    private const val NON_JOINER = 0x200C
    private const val FIRST_SYLLABLE = 0xAC00
    private const val NUM_SYLLABLES = 11172
    private const val FINALS = 28
    private val CONTROL = CharacterClass(GraphemeClasses.CONTROL)
    private val EXTEND = CharacterClass(GraphemeClasses.EXTEND)
    private val SPACING = CharacterClass(GraphemeClasses.SPACING)
    private val PREPEND = CharacterClass(GraphemeClasses.PREPEND)
    private val PICTOGRAPHIC = CharacterClass(GraphemeClasses.PICTOGRAPHIC)
    private val CONSONANT = CharacterClass(GraphemeClasses.CONSONANT)
    private val LINKER = CharacterClass(GraphemeClasses.LINKER)
    private val REGIONAL = CharacterClass(GraphemeClasses.REGIONAL)
    private val LEADING = CharacterClass("1100-115F A960-A97C")
    private val VOWEL = CharacterClass("1160-11A7 D7B0-D7C6 16D63 16D67-16D6A")
    private val FINAL = CharacterClass("11A8-11FF D7CB-D7FB")
}
