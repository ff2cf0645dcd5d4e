package io.github.tfdistill.text

import kotlin.math.ln
import kotlin.math.max
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/**
 * Whether a text is of the kind that a file was trained on; `tfdistill/manifest/familiarity.py`
 * says what each value means.
 */
@Serializable
internal data class Familiarity(
    val threshold: Double,
    @SerialName("first_word") val firstWord: Int,
    @SerialName("num_pieces") val numPieces: Long,
    val pieces: String,
    val pairs: String,
) {
    private val counts: Map<Long, Long> by lazy {
        val singles = numbers(pieces).chunked(2).associate { (piece, count) -> piece to count }
        singles + numbers(pairs).chunked(3).associate { (a, b, count) -> pair(a, b) to count }
    }

    /** Whether the pieces of a text, special ones included, are of that kind. */
    fun covers(ids: List<Int>): Boolean = score(ids) >= threshold

    /** The mean over the pieces, each after the one before it. */
    fun score(ids: List<Int>): Double =
        ids.zipWithNext { before, piece ->
                val share = (count(piece.toLong()) + 0.5) / (numPieces + UNSEEN_PIECES)
                val joined = count(pair(before.toLong(), piece.toLong())) + UNSEEN_PAIRS * share
                val rank = max(piece - firstWord, 0) + RANKS
                ln(joined / (count(before.toLong()) + UNSEEN_PAIRS)) + ln(rank)
            }
            .average()

    /** Whether the lists can be read. */
    fun isReadable(): Boolean =
        listOf(pieces to 2, pairs to 3).all { (text, width) ->
            val values = text.split(' ').map { it.toLongOrNull() }
            values.size % width == 0 && values.all { it != null && it in 0..Int.MAX_VALUE }
        }

    private fun count(key: Long): Double = (counts[key] ?: 0L).toDouble()

    private fun numbers(text: String) = text.split(' ').map { it.toLong() }

    /** A key above that of each piece: the first one counts from 1. */
    private fun pair(before: Long, piece: Long) = ((before + 1) shl 32) + piece

    private companion object {
        const val UNSEEN_PAIRS = 2.0
        const val UNSEEN_PIECES = 15_000.0
        const val RANKS = 10.0
    }
}
