package io.github.tfdistill.text

/** A set of code points, given as ranges of hexadecimal numbers such as "21-2F 3A". */
internal class CharacterClass(vararg classes: String) {
    private val starts: IntArray
    private val ends: IntArray

    init {
        val ranges =
            classes
                .flatMap { it.trim().split(Regex("\\s+")) }
                .map { item -> item.split('-').map { it.toInt(16) } }
                .map { it.first() to it.last() }
                .sortedBy { it.first }
        starts = IntArray(ranges.size) { ranges[it].first }
        ends = IntArray(ranges.size) { ranges[it].second }
    }

    operator fun contains(codePoint: Int): Boolean {
        val index = starts.binarySearch(codePoint)
        if (index >= 0) return true
        val before = -index - 2 // the last range that starts below
        return before >= 0 && codePoint <= ends[before]
    }
}
