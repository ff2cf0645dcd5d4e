package io.github.tfdistill.text

import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * The normalisation of a Unigram tokenizer: `precompiled_charsmap` of its tokenizer.json.
 *
 * A double-array trie over UTF-8 leads to what a text is replaced by. As in the library
 * `tokenizers`, a grapheme cluster of less than six bytes is looked up whole, and of all its
 * beginnings that the trie knows the shortest counts; what is not found is looked up character by
 * character.
 */
internal class CharsMap(content: ByteArray) {
    private val units: IntArray
    private val replacements: ByteArray

    init {
        val buffer = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN)
        val size = if (content.size >= Int.SIZE_BYTES) buffer.getInt() else -1
        if (size < 0 || size % Int.SIZE_BYTES != 0 || size > buffer.remaining()) {
            throw BundleException(
                BundleFault.MALFORMED,
                explain("precompiled_charsmap", "a trie and its texts", "${content.size} bytes"),
            )
        }
        units = IntArray(size / Int.SIZE_BYTES)
        buffer.asIntBuffer().get(units)
        replacements = content.copyOfRange(Int.SIZE_BYTES + size, content.size)
    }

    /** Normalises what stands in [text] from [from] to [to]. */
    fun letters(text: String, from: Int, to: Int): Letters {
        val read = read(text, from, to)
        val points = Growing(read.size)
        val changes = Growing(read.size)
        Graphemes.forEach(read.codePoints, 0, read.size) { begin, end ->
            if (!replace(read.codePoints, begin, end, points, changes)) {
                for (index in begin until end) {
                    if (replace(read.codePoints, index, index + 1, points, changes)) continue
                    points.add(read.codePoints[index])
                    changes.add(0)
                }
            }
        }
        return aligned(read, points.toArray(), changes.toArray())
    }

    private fun read(text: String, from: Int, to: Int): Letters {
        val points = IntArray(to - from)
        val starts = IntArray(to - from)
        val ends = IntArray(to - from)
        var count = 0
        var index = from
        while (index < to) {
            val point = text.codePointAt(index)
            val next = index + Character.charCount(point)
            points[count] = if (point in SURROGATES) REPLACEMENT else point
            starts[count] = index
            ends[count++] = next
            index = next
        }
        return Letters(points.copyOf(count), starts.copyOf(count), ends.copyOf(count))
    }

    /**
     * Replaces code points as a whole, where the trie knows them.
     *
     * @param changes how many characters of the text each of [points] stands for, less one; 1 for
     *   one that comes in addition
     */
    private fun replace(
        read: IntArray,
        begin: Int,
        end: Int,
        points: Growing,
        changes: Growing,
    ): Boolean {
        val at = find(read, begin, end)
        if (at !in replacements.indices) return false
        val first = points.size
        replacementAt(at).codePoints().forEach {
            points.add(it)
            changes.add(0)
        }
        val more = points.size - first - (end - begin)
        for (index in points.size - maxOf(more, 0) until points.size) changes[index] = 1
        if (more < 0 && changes.size > 0) changes[changes.size - 1] += more
        return true
    }

    /** Where the replacement of the shortest known beginning stands; -1 if there is none. */
    private fun find(read: IntArray, begin: Int, end: Int): Int {
        if (end - begin > 1 && (begin until end).sumOf { utf8Length(read[it]) } > MOST_BYTES)
            return -1
        var node = offset(unit(0))
        for (index in begin until end) {
            val length = utf8Length(read[index])
            for (place in 0 until length) {
                val label = utf8Byte(read[index], place, length)
                if (label == 0) return -1
                node = node xor label
                val unit = unit(node)
                if (unit and LABEL != label) return -1
                node = node xor offset(unit)
                if (unit and LEAF != 0) return unit(node) and VALUE
            }
        }
        return -1
    }

    private fun unit(node: Int) = if (node in units.indices) units[node] else NO_UNIT

    private fun replacementAt(at: Int): String {
        var end = at
        while (end < replacements.size && end - at < LONGEST && replacements[end] != END) end++
        return String(replacements, at, end - at, Charsets.UTF_8)
    }

    /** Says where each letter came from, as the library does: see [replace] for [changes]. */
    private fun aligned(read: Letters, points: IntArray, changes: IntArray): Letters {
        val starts = IntArray(points.size)
        val ends = IntArray(points.size)
        var next = 0
        for (index in points.indices) {
            val place = if (changes[index] > 0) next - 1 else next
            starts[index] = read.starts[place]
            ends[index] = read.ends[place]
            if (changes[index] <= 0) next += 1 - changes[index]
        }
        return Letters(points, starts, ends)
    }

    private companion object {
        const val MOST_BYTES = 5
        const val END: Byte = 0
        const val LONGEST = 256 // bytes of a replacement; Unicode's have at most 33
        const val REPLACEMENT = 0xFFFD
        const val NO_UNIT = Int.MIN_VALUE // which has no label
        const val LABEL = Int.MIN_VALUE or 0xFF
        const val VALUE = Int.MAX_VALUE
        const val LEAF = 1 shl 8
        val SURROGATES = 0xD800..0xDFFF

        /** How far the children of a unit of the trie are. */
        fun offset(unit: Int): Int = (unit ushr 10) shl ((unit and (1 shl 9)) ushr 6)

        fun utf8Length(point: Int): Int =
            when {
                point < 0x80 -> 1
                point < 0x800 -> 2
                point < 0x10000 -> 3
                else -> 4
            }

        /** Byte [place] of the [length] that a code point has in UTF-8. */
        fun utf8Byte(point: Int, place: Int, length: Int): Int {
            val bits = point ushr (6 * (length - 1 - place))
            return when {
                length == 1 -> point
                place > 0 -> bits and 0x3F or 0x80
                else -> bits or (0xF00 ushr length and 0xFF)
            }
        }
    }
}
