package io.github.tfdistill.text

/** How many tokens of a text, or of each half of a pair, are kept. */
internal object Truncation {
    /**
     * Cuts the longer text first, until both fit.
     *
     * A text of at most half of the room stays whole and the other one gets the rest. If both are
     * longer, each gets half; an odd token goes to the longer one, of equal ones to the second.
     *
     * @param first tokens of the first text
     * @param second tokens of the second text, 0 for none
     * @param room the most tokens of both
     * @return the tokens to keep of each: its first ones
     */
    fun lengths(first: Int, second: Int, room: Int): Pair<Int, Int> {
        val short = minOf(first, second)
        val long = maxOf(first, second)
        if (short + long <= room) return first to second
        val shorter = if (2 * short > room) room / 2 else short
        val longer = room - shorter
        return if (first > second) longer to shorter else shorter to longer
    }
}
