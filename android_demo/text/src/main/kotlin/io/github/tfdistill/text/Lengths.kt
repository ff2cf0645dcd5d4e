package io.github.tfdistill.text

/**
 * What a model is fed with.
 *
 * @property signature the name of a signature
 * @property sequenceLength its tokens, padding included
 * @property inputs int32 by name, padded to that length
 */
public class Feed
internal constructor(
    public val signature: String,
    public val sequenceLength: Int,
    public val inputs: Map<String, IntArray>,
)

/**
 * The sequence lengths of a model file, one signature each.
 *
 * @property maxLength the most tokens of a text, as the model was trained
 */
public class Lengths
internal constructor(private val signatures: Map<String, Signature>, public val maxLength: Int) {
    private val ascending = signatures.entries.sortedBy { it.value.sequenceLength }

    /** The sequence lengths, ascending. */
    public val all: List<Int> = ascending.map { it.value.sequenceLength }

    /** The shortest signature that holds so many tokens. */
    internal fun signatureFor(tokens: Int): String = entryFor(tokens).key

    /** Pads an example to the shortest signature that holds it. */
    public fun feed(encoding: Encoding, padId: Int): Feed {
        val (name, signature) = entryFor(encoding.size)
        return padded(name, signature, encoding, padId)
    }

    /** Pads, or cuts, an example to a signature of its own choice: what a benchmark feeds. */
    public fun feed(encoding: Encoding, padId: Int, sequenceLength: Int): Feed {
        val entry = ascending.first { it.value.sequenceLength == sequenceLength }
        return padded(entry.key, entry.value, encoding, padId)
    }

    private fun entryFor(tokens: Int) =
        ascending.firstOrNull { it.value.sequenceLength >= tokens }
            ?: throw IllegalArgumentException(explain("tokens", "at most ${all.last()}", tokens))

    private fun padded(name: String, signature: Signature, encoding: Encoding, padId: Int): Feed {
        val length = signature.sequenceLength
        val count = minOf(encoding.size, length)
        val inputs =
            signature.inputs.keys.associateWith { input ->
                when (input) {
                    ManifestChecks.IDS ->
                        IntArray(length) { if (it < count) encoding.ids[it] else padId }
                    ManifestChecks.MASK -> IntArray(length) { if (it < count) 1 else 0 }
                    else -> IntArray(length) { if (it < count) encoding.types[it] else 0 }
                }
            }
        return Feed(name, length, inputs)
    }
}
