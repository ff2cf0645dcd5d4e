package io.github.tfdistill.demo.core

import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import org.junit.Assert.assertEquals

/** Answers the golden examples as the Python side's file did, but for what [change] makes of it. */
class Replay(
    private val bundle: Bundle,
    source: FileSource,
    private val change: (Float) -> Float = { it },
) : ModelRunner {
    /** By their ids. */
    private val examples: Map<List<Int>, JsonObject> =
        goldenExamples(bundle, source).associateBy { it.getValue("input_ids").ints() }

    override val signatures = emptyMap<String, SignatureTensors>()

    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> {
        val size = inputs.getValue("attention_mask").sum()
        val ids = inputs.getValue("input_ids").take(size)
        val example = checkNotNull(examples[ids]) { "no golden example has the ids $ids" }
        assertEquals(example.getValue("signature").string(), signature)
        val rows = example.getValue("outputs").jsonArray
        val card = bundle.manifest.signatures.getValue(signature)
        return when (bundle.task.kind) {
            TaskKind.SPAN ->
                mapOf(Spans.START to 0, Spans.END to 1).mapValues { (_, column) ->
                    padded(rows.map { change(it.floats()[column]) }, card.sequenceLength)
                }
            TaskKind.TOKEN -> {
                val count = bundle.task.labels.size * card.sequenceLength
                mapOf("logits" to padded(rows.flatMap { it.floats().map(change) }, count))
            }
            else -> mapOf(card.outputs.keys.single() to rows.floats().map(change).toFloatArray())
        }
    }

    /** What stands at the padding must not matter. */
    private fun padded(values: List<Float>, size: Int) =
        FloatArray(size) { values.getOrElse(it) { 99f } }

    override fun close() = Unit
}
