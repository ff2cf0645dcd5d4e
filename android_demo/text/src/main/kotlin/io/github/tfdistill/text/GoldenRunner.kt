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
        val expected = signatures.getValue(signature).inputs.keys
        require(inputs.keys == expected) {
            explain("inputs of $signature", "$expected", inputs.keys)
        }
        val padded = inputs.getValue(ManifestChecks.IDS).asList()
        return answer(signature, padded.dropLastWhile { it == bundle.vocabulary.padId })
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
