package io.github.tfdistill.text

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/** Which tokens a text that is too long loses. */
@Serializable
public enum class Truncation {
    /** Its last ones. */
    @SerialName("end") END,
    /** Those between the first half of what is kept and the last, an odd token in the first. */
    @SerialName("middle") MIDDLE;

    /** Copies what is kept of [ids], [count] tokens, into [target] from [at] on. */
    internal fun copy(ids: IntArray, count: Int, target: IntArray, at: Int) {
        val head = if (this == END) count else count - count / 2
        ids.copyInto(target, at, 0, head)
        ids.copyInto(target, at + head, ids.size - (count - head), ids.size)
    }

    internal companion object {
        /**
         * Cuts the longer text first, until both fit.
         *
         * A text of at most half of the room stays whole and the other one gets the rest. If both
         * are longer, each gets half; an odd token goes to the longer one, of equal ones to the
         * second.
         *
         * @param first tokens of the first text
         * @param second tokens of the second text, 0 for none
         * @param room the most tokens of both
         * @return how many tokens to keep of each
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
}
