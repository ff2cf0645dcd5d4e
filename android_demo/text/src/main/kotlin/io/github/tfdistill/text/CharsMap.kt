package io.github.tfdistill.text

import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * A text after normalisation.
 *
 * @property places where in the original the character begins that each char comes from
 */
internal class Normalized(val text: CharSequence, val places: Growing)

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
            val message = explain("precompiled_charsmap", "a trie and its texts", content.size)
            throw BundleException(BundleFault.MALFORMED, message)
        }
        units = IntArray(size / Int.SIZE_BYTES)
        buffer.asIntBuffer().get(units)
        replacements = content.copyOfRange(Int.SIZE_BYTES + size, content.size)
    }

    /** Normalises what stands in [text], which has no lone surrogates, from [from] to [to]. */
    fun normalize(text: String, from: Int, to: Int): Normalized {
        val letters = StringBuilder()
        val places = Growing(to - from)
        var next = from // where the first character begins that nothing stands for yet
        var widened = false // the last replacement had more characters than what it replaced

        /** Says where replacements come from as the library does, which forgets some. */
        fun put(part: String, replacement: String) {
            val count = part.codePointCount(0, part.length)
            var place = next
            var number = 0
            forEachCharacter(replacement) { letter ->
                if (number++ in 1 until count) place = text.offsetByCodePoints(place, 1)
                letters.append(letter)
                repeat(letter.length) { places.add(place) }
            }
            if (letters.isEmpty()) return // what is dropped before the first letter is forgotten
            if (replacement.isEmpty() && widened) {
                val size = Character.charCount(letters.codePointBefore(letters.length))
                for (index in places.size - size until places.size) places[index] = next
            }
            next = text.offsetByCodePoints(next, count)
            widened = number > count
        }

        Graphemes.forEach(text, from, to) { begin, end ->
            val cluster = text.substring(begin, end)
            val replacement = replacement(cluster, MOST_BYTES)
            if (replacement != null) put(cluster, replacement)
            else forEachCharacter(cluster) { put(it, replacement(it) ?: it) }
        }
        return Normalized(letters, places)
    }

    private inline fun forEachCharacter(text: String, use: (String) -> Unit) {
        var begin = 0
        while (begin < text.length) {
            val end = text.offsetByCodePoints(begin, 1)
            use(text.substring(begin, end))
            begin = end
        }
    }

    /** What stands for a text; null if the trie knows no beginning of it, or it is too long. */
    private fun replacement(text: String, mostBytes: Int = Int.MAX_VALUE): String? {
        val bytes = text.toByteArray()
        if (bytes.size > mostBytes) return null
        var node = offset(unit(0))
        for (byte in bytes) {
            val label = byte.toInt() and 0xFF
            node = node xor label
            val unit = unit(node)
            if (label == 0 || unit and LABEL != label) return null
            node = node xor offset(unit)
            if (unit and LEAF != 0) return replacementAt(unit(node) and Int.MAX_VALUE)
        }
        return null
    }

    private fun unit(node: Int) = if (node in units.indices) units[node] else NO_UNIT

    private fun replacementAt(begin: Int): String? {
        if (begin !in replacements.indices) return null
        var end = begin
        while (end < minOf(replacements.size, begin + LONGEST) && replacements[end] != END) end++
        return String(replacements, begin, end - begin, Charsets.UTF_8)
    }

    private companion object {
        const val MOST_BYTES = 5
        const val END: Byte = 0
        const val LONGEST = 256 // bytes of a replacement; Unicode's have at most 33
        const val NO_UNIT = Int.MIN_VALUE // which has no label
        const val LABEL = Int.MIN_VALUE or 0xFF
        const val LEAF = 1 shl 8

        /** How far the children of a unit of the trie are. */
        fun offset(unit: Int): Int = (unit ushr 10) shl ((unit and (1 shl 9)) ushr 6)
    }
}
