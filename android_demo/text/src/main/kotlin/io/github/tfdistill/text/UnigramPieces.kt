package io.github.tfdistill.text

/**
 * The pieces of a Unigram tokenizer with their scores, and the best way to cut a word into them.
 *
 * The pieces lie in a trie over code points, in one hash table of (node, code point): a word of n
 * characters takes n walks, each as long as its longest piece, and no strings.
 */
internal class UnigramPieces(
    pieces: List<String>,
    private val scores: DoubleArray,
    private val unknownId: Int,
) {
    private val unknownScore = scores.min() - UNKNOWN_PENALTY
    private var keys = LongArray(START) { EMPTY }
    private var children = IntArray(START)
    private var pieceAt = IntArray(START) { NO_PIECE } // by node
    private var nodes = 1 // the root is 0

    init {
        for ((id, piece) in pieces.withIndex()) {
            var node = 0
            var index = 0
            while (index < piece.length) {
                val point = piece.codePointAt(index)
                node = childOrNew(node, point)
                index += Character.charCount(point)
            }
            pieceAt[node] = id
        }
    }

    /**
     * Cuts [points] from [from] to [to] into the pieces of the greatest sum of scores.
     *
     * Neighbouring characters without a piece are one unknown piece. Of equal sums the one counts
     * whose last piece begins first, as in the library `tokenizers`.
     */
    inline fun forEachPiece(points: IntArray, from: Int, to: Int, use: (Int, Int, Int) -> Unit) {
        val begins = bestPath(points, from, to)
        var begin = from
        while (begin < to) {
            val end = begins[begin - from]
            use(idOf(points, begin, end), begin, end)
            begin = end
        }
    }

    /** Where the piece that begins at each place of the best path ends; unknown ones are one. */
    fun bestPath(points: IntArray, from: Int, to: Int): IntArray {
        val size = to - from
        val sums = DoubleArray(size + 1)
        val begins = IntArray(size + 1) { NOT_REACHED }
        val unknown = BooleanArray(size + 1)
        for (begin in 0 until size) {
            var alone = false
            var node = 0
            var end = begin
            while (end < size) {
                node = child(node, points[from + end])
                if (node < 0) break
                end++
                val id = pieceAt[node]
                if (id == NO_PIECE) continue
                val sum = scores[id] + sums[begin]
                if (begins[end] == NOT_REACHED || sum > sums[end]) {
                    sums[end] = sum
                    begins[end] = begin
                    unknown[end] = id == unknownId
                }
                if (end == begin + 1) alone = true
            }
            if (alone) continue
            val sum = unknownScore + sums[begin]
            if (begins[begin + 1] == NOT_REACHED || sum > sums[begin + 1]) {
                sums[begin + 1] = sum
                begins[begin + 1] = begin
                unknown[begin + 1] = true
            }
        }
        return fused(begins, unknown, from)
    }

    /** Turns the way back into ends by begin, with neighbouring unknown pieces as one. */
    private fun fused(begins: IntArray, unknown: BooleanArray, from: Int): IntArray {
        val ends = IntArray(begins.size)
        var end = begins.size - 1
        while (end > 0) {
            var begin = begins[end]
            while (unknown[end] && begin > 0 && unknown[begin]) begin = begins[begin]
            ends[begin] = from + end
            end = begin
        }
        return ends
    }

    /** The id of a piece; that of the unknown one where there is none. */
    fun idOf(points: IntArray, from: Int, to: Int): Int {
        var node = 0
        for (index in from until to) {
            node = child(node, points[index])
            if (node < 0) return unknownId
        }
        return pieceAt[node].takeIf { it != NO_PIECE } ?: unknownId
    }

    private fun child(node: Int, point: Int): Int {
        val key = keyOf(node, point)
        var slot = slotOf(key)
        while (keys[slot] != EMPTY) {
            if (keys[slot] == key) return children[slot]
            slot = (slot + 1) and (keys.size - 1)
        }
        return -1
    }

    private fun childOrNew(node: Int, point: Int): Int {
        val known = child(node, point)
        if (known >= 0) return known
        if (2 * nodes >= keys.size) grow()
        if (nodes == pieceAt.size) {
            val size = pieceAt.size
            pieceAt = pieceAt.copyOf(2 * size)
            pieceAt.fill(NO_PIECE, size)
        }
        put(keyOf(node, point), nodes)
        return nodes++
    }

    private fun put(key: Long, child: Int) {
        var slot = slotOf(key)
        while (keys[slot] != EMPTY) slot = (slot + 1) and (keys.size - 1)
        keys[slot] = key
        children[slot] = child
    }

    private fun grow() {
        val (oldKeys, oldChildren) = keys to children
        keys = LongArray(2 * oldKeys.size) { EMPTY }
        children = IntArray(keys.size)
        for (slot in oldKeys.indices) {
            if (oldKeys[slot] != EMPTY) put(oldKeys[slot], oldChildren[slot])
        }
    }

    private fun keyOf(node: Int, point: Int) = (node.toLong() shl POINT_BITS) or point.toLong()

    private fun slotOf(key: Long): Int =
        ((key * SPREAD) ushr Int.SIZE_BITS).toInt() and (keys.size - 1)

    private companion object {
        const val UNKNOWN_PENALTY = 10.0
        const val START = 1 shl 12
        const val EMPTY = -1L
        const val NO_PIECE = -1
        const val NOT_REACHED = -1
        const val POINT_BITS = 21
        const val SPREAD = -0x61c8864680b583ebL // 2^64 over the golden ratio
    }
}
