package io.github.tfdistill.text

/**
 * A part of a text, behind a question or alone.
 *
 * @property encoding `[CLS] question [SEP] part of the text [SEP]`, or without a question
 * @property textStart the token at which the part begins
 * @property first the piece of the text at which it begins
 */
internal class Window(val encoding: Encoding, val textStart: Int, val first: Int, val count: Int)

/** Overlapping windows over a text that is too long for a model. */
internal object Windows {
    /**
     * Cuts a text: windows begin at every [step]-th piece, until one reaches the end.
     *
     * @param size pieces of the text
     * @param room the most pieces of a window
     * @param window makes one of its first piece and the number of its pieces
     */
    fun cut(size: Int, room: Int, step: Int, window: (Int, Int) -> Window): List<Window> {
        val last = maxOf(0, (size - room + step - 1) / step) * step
        return (0..last step step).map { window(it, minOf(room, size - it)) }
    }

    /** For each piece the window that shows most around it, of equal ones the first. */
    fun best(windows: List<Window>, size: Int): IntArray {
        val best = IntArray(size)
        val shown = IntArray(size) { -1 }
        for ((number, window) in windows.withIndex()) {
            for (offset in 0 until window.count) {
                val poorer = minOf(offset, window.count - 1 - offset)
                val piece = window.first + offset
                if (poorer > shown[piece]) {
                    shown[piece] = poorer
                    best[piece] = number
                }
            }
        }
        return best
    }
}
