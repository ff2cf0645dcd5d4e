package io.github.tfdistill.text

import kotlin.math.abs

/** The scores of pieces, as a tokenizer.json has them. */
internal object Scores {
    /**
     * Reads the number that stands in [text], to the same double as `toDouble`.
     *
     * Nearly all scores are float32 by origin, in the 17 digits of a double, which `toDouble` takes
     * long for. The float32 next to a number is the double as well if they differ by less than half
     * of what doubles tell apart: with m / 10^d for the number and n / 2^k for the float32, if |2^k
     * m - 10^d n| < 10^d / 2^30. That is small where both are close, and longs have its last 64
     * bits.
     *
     * @throws NumberFormatException if it is none, or not finite
     */
    fun parse(text: ByteArray, from: Int, to: Int): Double {
        var digits = 0L
        var power = 0L // of the digits behind the point
        var isPlain = to - from < MOST_CHARS
        for (index in from until to) {
            val letter = text[index].toInt()
            if (letter in '0'.code..'9'.code) {
                digits = 10 * digits + (letter - '0'.code)
                power *= 10
            } else if (letter == '.'.code && power == 0L) power = 1
            else if (letter != '-'.code || index > from) isPlain = false
        }
        if (isPlain && power > 0) {
            val about = digits.toDouble() / power
            val near = about.toFloat()
            val shift = 23 - Math.getExponent(near)
            val whole = Math.scalb(near, shift).toLong() // 24 bits
            val difference = abs((digits shl shift) - power * whole)
            val isClose = abs(near - about) < 4 * Math.ulp(about) && shift in 0..62
            // Below a power of two doubles are closer together.
            if (isClose && difference < power shr 30 && whole != 1L shl 23) {
                return if (text[from].toInt() == '-'.code) -near.toDouble() else near.toDouble()
            }
        }
        val number = String(text, from, to - from, Charsets.UTF_8)
        val score = number.toDouble()
        return if (score.isFinite()) score else throw NumberFormatException(number)
    }

    private const val MOST_CHARS = 20 // so many digits, a sign and a point are below 2^63
}
