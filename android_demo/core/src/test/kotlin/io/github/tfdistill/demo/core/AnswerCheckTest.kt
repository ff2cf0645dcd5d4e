package io.github.tfdistill.demo.core

import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class AnswerCheckTest {
    /** Answers as golden.json does, but for what [change] makes of it. */
    private class Replay(private val bundle: Bundle, private val change: (Float) -> Float) :
        ModelRunner {
        private val outputs =
            Resources.json("bundles/${bundle.name}/golden.json")
                .jsonObject
                .getValue("examples")
                .jsonArray
                .map { it.jsonObject }
                .associate { it.getValue("input_ids").ints() to it.getValue("outputs").jsonArray }

        override val signatures = emptyMap<String, SignatureTensors>()

        override fun run(
            signature: String,
            inputs: Map<String, IntArray>,
        ): Map<String, FloatArray> {
            val size = inputs.getValue("attention_mask").sum()
            val rows = outputs.getValue(inputs.getValue("input_ids").take(size))
            val length = bundle.manifest.signatures.getValue(signature).sequenceLength
            return when (bundle.task.kind) {
                TaskKind.SPAN ->
                    mapOf(Spans.START to 0, Spans.END to 1).mapValues { (_, column) ->
                        padded(rows.map { change(it.floats()[column]) }, length)
                    }
                TaskKind.TOKEN ->
                    mapOf("logits" to padded(rows.flatMap { it.floats().map(change) }, 3 * length))
                else -> mapOf("scores" to rows.floats().map(change).toFloatArray())
            }
        }

        /** What stands at the padding must not matter. */
        private fun padded(values: List<Float>, size: Int) =
            FloatArray(size) { values.getOrElse(it) { 99f } }

        override fun close() = Unit
    }

    private fun check(name: String, change: (Float) -> Float): List<Answered> {
        val bundle = Resources.bundles.open(name)
        val golden = GoldenExamples.read(bundle, Resources)
        return AnswerCheck(bundle, golden).check(Replay(bundle, change), 2, "xnnpack")
    }

    private val names = listOf("pairs-float32", "spans-float32", "tags-float32")

    @Test
    fun `the same answers have no error, whatever stands at the padding`() {
        for (name in names) {
            val rows = check(name) { it }
            assertTrue(name, rows.isNotEmpty() && rows.all { it.sequenceLength in listOf(16, 24) })
            for (row in rows) {
                assertEquals(0.0, row.maxAbsError, 0.0)
                assertNull(row.sqnrDb)
                assertEquals(1.0, row.argmaxAgreement)
                assertEquals(2 to "xnnpack", row.threads to row.delegate)
            }
        }
    }

    @Test
    fun `answers that are one percent larger have that error, and the same best`() {
        for (name in names) {
            for (row in check(name) { it * 1.01f }) {
                assertEquals(40.0, row.sqnrDb!!, 0.01) // 20 log10(1 / 0.01); floats of 24 bits
                assertEquals(1.0, row.argmaxAgreement)
                assertTrue(row.maxAbsError > 0)
            }
        }
    }

    @Test
    fun `answers upside down agree nowhere`() {
        for (name in names) {
            for (row in check(name) { -it }) assertEquals(0.0, row.argmaxAgreement)
        }
    }

    @Test
    fun `an answer that is no number is refused`() {
        assertThrows(BundleException::class.java) { check("pairs-float32") { Float.NaN } }
    }
}
