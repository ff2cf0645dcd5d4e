package io.github.tfdistill.text

import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.float
import kotlinx.serialization.json.jsonPrimitive

/**
 * Stands in for a runtime in tests on a computer: it answers the golden examples of a bundle as the
 * file did where it was exported, and nothing else. What stands at the padding is 99.
 *
 * @param golden the examples of the bundle
 */
public class GoldenRunner(private val bundle: Bundle, golden: GoldenExamples) : ModelRunner {
    private val byIds = golden.examples.associateBy { it.inputIds }

    override val signatures: Map<String, SignatureTensors>
        get() = bundle.signatures

    /** @throws IllegalArgumentException if the inputs are those of no golden example */
    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> {
        checkNames(signature, inputs.keys)
        val padded = inputs.getValue(ManifestChecks.IDS).asList()
        return answer(signature, padded.dropLastWhile { it == bundle.vocabulary.padId })
    }

    /** @throws IllegalArgumentException if the rows are those of no golden example */
    override fun run(
        signature: String,
        inputs: Map<String, IntArray>,
        rows: Map<String, FloatArray>,
    ): Map<String, FloatArray> {
        checkNames(signature, inputs.keys + rows.keys)
        val given = rows.getValue(ManifestChecks.WORD_ROWS)
        val table = requireNotNull(bundle.words) { explain("file", "one for npu-rows", "another") }
        val length = given.size / table.width
        val padId = bundle.vocabulary.padId
        val found =
            byIds.keys.firstOrNull { ids ->
                val padded = IntArray(length) { ids.getOrElse(it) { padId } }
                ids.size <= length && table.rows(padded).contentEquals(given)
            }
        return answer(signature, found.orEmpty())
    }

    private fun checkNames(signature: String, received: Set<String>) {
        val expected = signatures.getValue(signature).inputs.keys
        require(received == expected) { explain("inputs of $signature", "$expected", received) }
    }

    private fun answer(signature: String, ids: List<Int>): Map<String, FloatArray> {
        val tensors = signatures.getValue(signature)
        val outputs =
            requireNotNull(byIds[ids]?.outputs as? JsonArray) {
                explain("ids", "those of a golden example", ids)
            }
        val columns =
            if (bundle.task.kind == TaskKind.SPAN) {
                listOf(Spans.START, Spans.END).mapIndexed { column, name ->
                    name to outputs.map { flat(it)[column] }
                }
            } else {
                listOf(tensors.outputs.keys.single() to flat(outputs))
            }
        return columns.toMap().mapValues { (name, values) ->
            val size = tensors.outputs.getValue(name).shape.fold(1, Int::times)
            FloatArray(size) { values.getOrElse(it) { PADDING } }
        }
    }

    override fun close() {}

    internal companion object {
        private const val PADDING = 99f

        /** Numbers in the order in which they stand. */
        fun flat(element: JsonElement): List<Float> =
            if (element is JsonArray) element.flatMap(::flat)
            else listOf(element.jsonPrimitive.float)
    }
}
