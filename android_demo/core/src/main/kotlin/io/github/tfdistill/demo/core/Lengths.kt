package io.github.tfdistill.demo.core

/** What a model is fed with: the name of a signature and its inputs, padded to its length. */
class Feed(val signature: String, val sequenceLength: Int, val inputs: Map<String, IntArray>)

/** The sequence lengths of a model file, one signature each. */
class Lengths(private val signatures: Map<String, Signature>, val maxLength: Int) {
    private val ascending = signatures.entries.sortedBy { it.value.sequenceLength }

    /** The sequence lengths, ascending. */
    val all: List<Int> = ascending.map { it.value.sequenceLength }

    /** The shortest signature that holds so many tokens. */
    fun signatureFor(tokens: Int): String = entryFor(tokens).key

    /** Pads an example to the shortest signature that holds it. */
    fun feed(encoding: Encoding, padId: Int): Feed {
        val (name, signature) = entryFor(encoding.size)
        return padded(name, signature, encoding, padId)
    }

    /** Pads, or cuts, an example to a signature of its own choice: what a benchmark feeds. */
    fun feed(encoding: Encoding, padId: Int, sequenceLength: Int): Feed {
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
