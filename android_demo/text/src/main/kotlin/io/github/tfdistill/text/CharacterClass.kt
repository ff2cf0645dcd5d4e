package io.github.tfdistill.text

import java.util.StringTokenizer
import java.util.TreeMap

/** Sets of code points, each given as ranges of hexadecimal numbers such as "21-2F 3A". */
internal class CharacterClass(vararg classes: String) {
    private val starts: IntArray
    private val ends: IntArray
    private val numbers: IntArray

    init {
        val ranges = TreeMap<Int, Pair<Int, Int>>() // start to end and number
        for ((number, content) in classes.withIndex()) {
            val items = StringTokenizer(content)
            while (items.hasMoreTokens()) {
                val item = items.nextToken()
                val start = item.substringBefore('-').toInt(16)
                ranges[start] = item.substringAfter('-').toInt(16) to number
            }
        }
        starts = ranges.keys.toIntArray()
        ends = ranges.values.map { it.first }.toIntArray()
        numbers = ranges.values.map { it.second }.toIntArray()
    }

    operator fun contains(codePoint: Int): Boolean = numberOf(codePoint) >= 0

    /**
     * The number of the set that has a code point, from 0; -1 if none has.
     *
     * Of two ranges that overlap the one counts that begins later, of one start the last set's.
     */
    fun numberOf(codePoint: Int): Int {
        val index = starts.binarySearch(codePoint)
        val range = if (index >= 0) index else -index - 2 // the last range that starts below
        return if (range >= 0 && codePoint <= ends[range]) numbers[range] else -1
    }
}
