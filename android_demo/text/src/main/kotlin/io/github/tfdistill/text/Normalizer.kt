package io.github.tfdistill.text

import java.text.Normalizer as UnicodeNormalizer

/**
 * The letters of a text after BERT's normalisation, and where in the text each came from.
 *
 * White space is left as it is in [codePoints]; [starts] and [ends] are UTF-16 indices of the
 * character of the text that a letter is of.
 */
internal class Letters(val codePoints: IntArray, val starts: IntArray, val ends: IntArray) {
    val size: Int
        get() = codePoints.size
}

/**
 * BERT's normalisation, the same as in `tfdistill/tokenization/words.py`.
 *
 * Control and format characters and lone surrogates are dropped; with [lowerCase] the text is
 * decomposed (NFD), its nonspacing marks are dropped, and each character becomes lower case by
 * itself.
 */
internal class Normalizer(private val lowerCase: Boolean) {

    fun letters(text: String): Letters {
        val cleaned = IntArray(text.length)
        val offsets = IntArray(text.length)
        var count = 0
        var ascii = true
        var index = 0
        while (index < text.length) {
            val point = text.codePointAt(index)
            if (!isDropped(point)) {
                cleaned[count] = if (point in SPACE) ' '.code else point
                offsets[count++] = index
                ascii = ascii && point < 0x80
            }
            index += Character.charCount(point)
        }
        val points = cleaned.copyOf(count)
        val starts = offsets.copyOf(count)
        if (!lowerCase) return withEnds(text, points, starts)
        if (ascii) {
            for (i in points.indices) points[i] = Character.toLowerCase(points[i])
            return withEnds(text, points, starts)
        }
        return decomposed(text, points, starts)
    }

    private fun isDropped(point: Int): Boolean =
        when {
            point in ' '.code..'~'.code -> false
            point in 0xD800..0xDFFF -> true // half of a pair
            else -> point in REMOVED
        }

    private fun decomposed(text: String, points: IntArray, offsets: IntArray): Letters {
        val letters = Growing(points.size)
        val starts = Growing(points.size)
        for (i in points.indices) {
            stripped(String(Character.toChars(points[i]))) { letter ->
                letters.add(letter)
                starts.add(offsets[i])
            }
        }
        val oneByOne = letters.toArray()
        val neighbours = Growing(oneByOne.size)
        stripped(String(points, 0, points.size)) { neighbours.add(it) }
        val together = neighbours.toArray()
        if (together.contentEquals(oneByOne)) return withEnds(text, oneByOne, starts.toArray())
        // Decomposition puts neighbouring marks into an order of its own; some marks are kept.
        return withEnds(text, together, reordered(oneByOne, together, starts.toArray()))
    }

    /** Decomposes, drops nonspacing marks and makes lower case. */
    private inline fun stripped(text: String, use: (Int) -> Unit) {
        val form =
            if (text.length == 1 && text[0] < '\u0080') {
                text
            } else {
                UnicodeNormalizer.normalize(text, UnicodeNormalizer.Form.NFD)
            }
        var index = 0
        while (index < form.length) {
            val point = form.codePointAt(index)
            if (point !in MARKS) use(Character.toLowerCase(point))
            index += Character.charCount(point)
        }
    }

    /** Where each letter of [together] came from: the first equal one that is not taken. */
    private fun reordered(oneByOne: IntArray, together: IntArray, starts: IntArray): IntArray {
        val waiting = ArrayDeque<Int>() // those that were passed over
        var next = 0
        return IntArray(together.size) { place ->
            val letter = together[place]
            val earlier = waiting.firstOrNull { oneByOne[it] == letter }
            if (earlier != null) {
                waiting.remove(earlier)
                starts[earlier]
            } else {
                while (next < oneByOne.size && oneByOne[next] != letter) waiting.add(next++)
                // The letters are the same ones but for their order; if a system disagreed with
                // itself about that, the place would be the end of the text and not a crash.
                if (next < oneByOne.size) starts[next++] else starts.lastOrNull() ?: 0
            }
        }
    }

    private fun withEnds(text: String, points: IntArray, starts: IntArray): Letters {
        val ends =
            IntArray(starts.size) { starts[it] + Character.charCount(text.codePointAt(starts[it])) }
        return Letters(points, starts, ends)
    }

    private companion object {
        val REMOVED = CharacterClass(UnicodeClasses.CONTROL, UnicodeClasses.FORMAT)
        val SPACE = CharacterClass(UnicodeClasses.WHITE_SPACE)
        val MARKS = CharacterClass(UnicodeClasses.NONSPACING_MARKS)
    }
}

/** An array of numbers that grows. */
internal class Growing(capacity: Int = 16) {
    private var values = IntArray(maxOf(capacity, 16))
    var size = 0
        private set

    fun add(value: Int) {
        if (size == values.size) values = values.copyOf(2 * size)
        values[size++] = value
    }

    operator fun get(index: Int): Int = values[index]

    operator fun set(index: Int, value: Int) {
        values[index] = value
    }

    fun toArray(): IntArray = values.copyOf(size)
}
