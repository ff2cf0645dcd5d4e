package io.github.tfdistill.text

import java.util.concurrent.CancellationException
import kotlin.math.log10
import kotlinx.serialization.json.float
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class DeviceParityTest {
    private fun parity(name: String, change: (Float) -> Float): DeviceParity {
        val bundle = Resources.bundles.open(name)
        val golden = GoldenExamples.read(bundle, Resources)
        return AnswerCheck(bundle, golden).parity(Replay(bundle, Resources, change))
    }

    private val names = listOf("pairs-float32", "spans-float32", "tags-float32")
    private val pairs = Resources.bundles.open("pairs-float32")

    /** Gives the golden outputs of the pairs at whatever length it is asked. */
    private val anywhere =
        object : ModelRunner {
            val signaturesRun = ArrayList<String>()
            private val outputs =
                goldenExamples(pairs, Resources).associate { example ->
                    val values = example.jsonObject.getValue("outputs").jsonArray
                    example.getValue("input_ids").ints() to
                        values.map { it.jsonPrimitive.float }.toFloatArray()
                }

            override val signatures = emptyMap<String, SignatureTensors>()

            override fun run(signature: String, inputs: Map<String, IntArray>) =
                inputs.getValue("input_ids").take(inputs.getValue("attention_mask").sum()).let {
                    signaturesRun += signature
                    mapOf("scores" to outputs.getValue(it))
                }

            override fun close() = Unit
        }

    private fun golden(sizes: IntRange) =
        GoldenExamples(
            GoldenExamples.read(pairs, Resources).examples.filter { it.inputIds.size in sizes }
        )

    @Test
    fun `the same answers agree, at every length`() {
        for (name in names) {
            val result = parity(name) { it }
            assertTrue("$result", result.passed)
            assertEquals(0.0, result.maxError, 0.0)
            assertNull(result.sqnrDb)
            assertEquals(emptyList<String>(), result.changed + result.unchecked)
            assertEquals(0.02 to 45.0, result.bounds.maxError to result.bounds.sqnrDb)
        }
    }

    @Test
    fun `errors as float16 makes them pass, larger ones do not`() {
        for (name in names) {
            val small = parity(name) { it * 1.002f }
            assertTrue("$small", small.passed && small.maxError > 0)
            assertEquals(-20 * log10(0.002), small.sqnrDb!!, 0.01)
            val large = parity(name) { it * 1.05f }
            assertEquals(2, large.faults().size) // the largest error and the SQNR
            assertTrue(large.faults()[0], "an error / rms of at most 0.0200" in large.faults()[0])
            assertEquals(emptyList<String>(), large.changed)
        }
    }

    @Test
    fun `one other label is enough to fail, and the example is named`() {
        for (name in names) {
            val result = parity(name) { -it }
            val untagged = if (name == "tags-float32") 2 else 0 // parts of a long sentence
            assertEquals(result.numAnswers - untagged, result.changed.size)
            assertFalse(result.passed)
        }
        val good = parity("pairs-float32") { it }
        assertTrue(good.passed)
        val other = good.copy(changed = listOf("who is it"))
        assertTrue("who is it" in other.faults().single())
        assertFalse(good.copy(numAnswers = 0).passed)
        assertFalse(good.copy(maxError = Double.NaN).passed)
        assertFalse(good.copy(sqnrDb = 44.9).passed)
    }

    @Test
    fun `of several labels those that apply count, and not which is the largest`() {
        val task = pairs.task.copy(kind = TaskKind.MULTI_LABEL)
        val card = pairs.manifest.copy(task = task, softmax = false, confidence = null)
        val bundle = Bundle(pairs.name, pairs.entry, card, pairs.tokenizer)
        val golden = GoldenExamples.read(bundle, Resources)
        fun changed(change: (Float) -> Float) =
            AnswerCheck(bundle, golden).parity(Replay(bundle, Resources, change)).changed
        assertEquals(emptyList<String>(), changed { 1 - it }) // all apply, another is the largest
        assertEquals(golden.examples.size, changed { if (it > 0.4f) it else it - 1 }.toSet().size)
    }

    @Test
    fun `tags count where a word begins`() {
        val bundle = Resources.bundles.open("tags-float32")
        val golden = GoldenExamples.read(bundle, Resources)
        val wide = bundle.task.labels.size
        fun changed(turned: (String) -> Boolean): List<String> {
            val replay = Replay(bundle, Resources)
            val runner =
                object : ModelRunner by replay {
                    override fun run(signature: String, inputs: Map<String, IntArray>) =
                        replay.run(signature, inputs).mapValues { (_, values) ->
                            val tokens = inputs.getValue("input_ids").map(bundle.vocabulary::token)
                            FloatArray(values.size) {
                                if (turned(tokens[it / wide])) -values[it] else values[it]
                            }
                        }
                }
            return AnswerCheck(bundle, golden).parity(runner).changed
        }
        assertEquals(
            emptyList<String>(),
            changed { it.startsWith("##") || it in setOf("[CLS]", "[SEP]") },
        )
        assertEquals(emptyList<String>(), changed { it in setOf("'", ")", "本") }) // "don't", "日本"
        assertTrue(changed { it == "good" }.isNotEmpty())
    }

    @Test
    fun `starts and ends in the question do not count, those in the text do`() {
        val bundle = Resources.bundles.open("spans-float32")
        val replay = Replay(bundle, Resources)
        fun changed(type: Int): List<String> {
            val runner =
                object : ModelRunner by replay {
                    override fun run(signature: String, inputs: Map<String, IntArray>) =
                        replay.run(signature, inputs).mapValues { (_, values) ->
                            val types = inputs.getValue("token_type_ids")
                            FloatArray(values.size) {
                                if (it > 0 && types[it] == type) -values[it] * 9 else values[it]
                            }
                        }
                }
            return AnswerCheck(bundle, GoldenExamples.read(bundle, Resources))
                .parity(runner)
                .changed
        }
        assertEquals(emptyList<String>(), changed(0))
        assertTrue(changed(1).isNotEmpty())
    }

    @Test
    fun `a length without examples of its own runs the shorter ones, padded`() {
        val told = ArrayList<Pair<Int, Int>>()
        val short = golden(1..16)
        val result = AnswerCheck(pairs, short).parity(anywhere) { done, of -> told += done to of }
        assertTrue("$result", result.passed)
        assertEquals(2 * short.examples.size, result.numAnswers)
        assertEquals(
            anywhere.signaturesRun.size,
            anywhere.signaturesRun.count { it.endsWith("16") } * 2,
        )
        assertEquals((1..result.numAnswers).map { it to result.numAnswers }, told)
    }

    @Test
    fun `a length that no example fits into is not vouched for`() {
        val result = AnswerCheck(pairs, golden(17..24)).parity(anywhere)
        assertEquals(listOf(16), result.unchecked)
        assertTrue("none for [16]" in result.faults().single())
    }

    @Test
    fun `what a CPU rounds and a GPU does not is allowed for, and nothing else`() {
        val card = pairs.manifest
        val bounds = mapOf("max_error" to 0.5, "sqnr_db" to 17.0)
        val lossy = card.copy(parity = card.parity!!.copy(bounds = bounds))
        for (name in listOf("float32", "float16", "weight_only_wi8_afp32")) {
            assertEquals(ParityBounds.FLOAT16, ParityBounds.of(lossy.copy(quantization = name)))
        }
        for (name in listOf("dynamic_wi8_afp32", "static_wi8_ai8_integer_only")) {
            val bounds = ParityBounds.of(lossy.copy(quantization = name))
            assertEquals(0.52, bounds.maxError, 1e-12)
            assertEquals(16.66, bounds.sqnrDb, 0.01) // amplitudes: 0.1413 + 0.0056
        }
        val mixed = lossy.copy(quantizedLayers = mapOf("encoder/*" to "dynamic_wi8_afp32"))
        assertEquals(0.52, ParityBounds.of(mixed).maxError, 1e-12)
    }

    @Test
    fun `it stops between two answers, and refuses what is no number`() {
        val all = golden(1..24)
        val stopped = AnswerCheck(pairs, all) { anywhere.signaturesRun.size == 3 }
        assertThrows(CancellationException::class.java) { stopped.parity(anywhere) }
        assertEquals(3, anywhere.signaturesRun.size)
        assertThrows(BundleException::class.java) { parity("pairs-float32") { Float.NaN } }
    }
}
