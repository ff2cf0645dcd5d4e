package io.github.tfdistill.text

import io.github.tfdistill.text.TaskKind.CLASSIFICATION
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.double
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

/** How sure an answer is, as `tfdistill.predictor` says. */
class ConfidenceTest {
    private val cases = Resources.json("confidence.json").jsonArray.map { it.jsonObject }

    private fun opened(case: JsonObject, edit: (Confidence) -> Confidence = { it }): Bundle {
        val bundle = Resources.bundles.open(case.getValue("bundle").string())
        val content = case.getValue("confidence").toString()
        val confidence = BundleJson.decode("confidence", content, Confidence.serializer())
        val kind = BundleJson.decode("kind", "${case["kind"]}", TaskKind.serializer())
        val card = bundle.manifest
        val changed = card.copy(confidence = edit(confidence), task = card.task?.copy(kind = kind))
        ManifestChecks.check(changed)
        return Bundle(bundle.name, bundle.entry, changed, bundle.tokenizer)
    }

    @Test
    fun `probabilities and sure answers are those of Python to six digits`() {
        assertEquals(4, cases.size)
        for (case in cases) {
            val bundle = opened(case)
            val replay = Replay(bundle, Resources)
            val predictor = Predictor(bundle, replay)
            val agreeing = Predictor(bundle, replay, maxDisagreement = 0.02)
            val answers = case.getValue("answers").jsonArray.map { it.jsonObject }
            assertTrue(answers.size > 5)
            for (answer in answers) {
                val text = answer.getValue("text").string()
                val pair = answer.getValue("pair").jsonPrimitive.contentOrNull
                val prediction = predictor.predict(text, pair)
                val probability = answer.getValue("probability").jsonPrimitive.double
                assertEquals(text, probability, checkNotNull(prediction.probability), 1e-6)
                assertEquals(text, answer.getValue("sure").flag(), prediction.sure)
                val agrees = agreeing.predict(text, pair).sure
                assertEquals(text, answer.getValue("sure_by_agreement").flag(), agrees)
                val labels = answer.getValue("labels").jsonArray.map { it.string() }
                val one = labels.singleOrNull().takeIf { bundle.task.kind == CLASSIFICATION }
                assertEquals(text, one, prediction.label)
                assertEquals(text, labels.toSet(), labelsOf(prediction).toSet())
            }
        }
    }

    @Test
    fun `texts of another kind are not sure, by the score of Python to six digits`() {
        val case = cases.last()
        val bundle = opened(case)
        val familiarity = checkNotNull(bundle.manifest.confidence?.familiarity)
        val anyText = opened(case) { it.copy(familiarity = null) }
        val replay = Replay(bundle, Resources)
        val covered =
            case.getValue("answers").jsonArray.map { answer ->
                val text = answer.jsonObject.getValue("text").string()
                val pair = answer.jsonObject.getValue("pair").string()
                val ids = bundle.tokenizer.encode(text, pair, bundle.lengths.maxLength).ids.toList()
                val score = answer.jsonObject.getValue("score").jsonPrimitive.double
                assertEquals(text, score, familiarity.score(ids), 1e-6)
                val sure = Predictor(anyText, replay).predict(text, pair).sure
                val expected = sure == true && familiarity.covers(ids)
                assertEquals(text, expected, Predictor(bundle, replay).predict(text, pair).sure)
                familiarity.covers(ids)
            }
        assertTrue(true in covered && false in covered)
    }

    private fun labelsOf(prediction: Prediction): List<String> =
        (prediction.outcome as? Outcome.Tags)?.tags ?: prediction.labels

    @Test
    fun `a text without the second one, or with one too many, is refused`() {
        val bundle = opened(cases.first())
        val alone = bundle.manifest.copy(task = bundle.task.copy(pair = false))
        val single = Bundle(bundle.name, bundle.entry, alone, bundle.tokenizer)
        val tags = opened(cases[2])
        for ((model, second) in listOf(bundle to null, single to "a film", tags to "a film")) {
            val predictor = Predictor(model, Replay(model, Resources))
            val error =
                assertThrows(IllegalArgumentException::class.java) {
                    predictor.predict("a story", second)
                }
            assertTrue(
                error.message,
                "second text" in "${error.message}" || "one text" in "${error.message}",
            )
        }
    }

    @Test
    fun `the promise that is wanted decides, and one that no threshold keeps makes nothing sure`() {
        val bundle = opened(cases.first())
        val text = cases.first().getValue("answers").jsonArray.first().jsonObject
        val replay = Replay(bundle, Resources)
        val none = Predictor(bundle, replay, maxError = 0.1)
        assertEquals(false, none.predict(text.getValue("text").string(), "").sure)
        val error =
            assertThrows(IllegalArgumentException::class.java) {
                Predictor(bundle, replay, maxError = 0.02)
            }
        assertTrue(error.message, "one of [0.05, 0.1]" in error.message.orEmpty())
    }

    @Test
    fun `an agreement decides in the place of a promise, and not beside one`() {
        val bundle = opened(cases.first())
        val text = cases.first().getValue("answers").jsonArray.first().jsonObject
        val replay = Replay(bundle, Resources)
        val none = Predictor(bundle, replay, maxDisagreement = 0.1)
        assertEquals(false, none.predict(text.getValue("text").string(), "").sure)
        for ((error, word) in listOf(null to "one of [0.02, 0.1]", 0.05 to "no maxError beside")) {
            val thrown =
                assertThrows(IllegalArgumentException::class.java) {
                    Predictor(bundle, replay, maxError = error, maxDisagreement = 0.05)
                }
            assertTrue(thrown.message, word in thrown.message.orEmpty())
        }
    }

    @Test
    fun `a text that the vocabulary cannot spell is not sure`() {
        val bundle = opened(cases.first()) { it.copy(familiarity = null) }
        val runner =
            object : ModelRunner {
                override val signatures = bundle.signatures

                override fun run(signature: String, inputs: Map<String, IntArray>) =
                    mapOf("scores" to floatArrayOf(0f, 0f, 1f))

                override fun close() = Unit
            }
        val predictor = Predictor(bundle, runner)
        assertEquals(true, predictor.predict("a film", "is good").sure)
        assertEquals(false, predictor.predict("फिल्म अच्छी है", "a film").sure)
        assertEquals(false, predictor.predict("これは、いい映画です。", "").sure)
        assertEquals(true, predictor.predict("日本", "😀 a film is good").sure)
    }

    @Test
    fun `a file without promises is neither sure nor unsure`() {
        val bundle = opened(cases.first()) { it.copy(promises = emptyList()) }
        val text = cases.first().getValue("answers").jsonArray.first().jsonObject
        val prediction =
            Predictor(bundle, Replay(bundle, Resources)).predict(text.getValue("text").string(), "")
        assertNull(prediction.sure)
        assertTrue(checkNotNull(prediction.probability) in 0.0..1.0)
    }

    @Test
    fun `numbers that cannot be right are refused`() {
        val promise = Promise(0.05, 300, threshold = 1.5)
        for ((edit, word) in
            listOf<Pair<(Confidence) -> Confidence, String>>(
                { it: Confidence -> it.copy(temperature = 0.0) } to "temperature",
                { it: Confidence -> it.copy(temperature = Double.NaN) } to "temperature",
                { it: Confidence -> it.copy(promises = listOf(promise)) } to "threshold",
                { it: Confidence ->
                    it.copy(promises = listOf(promise.copy(threshold = 0.5, maxError = 0.0)))
                } to "max_error",
                { it: Confidence ->
                    it.copy(agreements = listOf(ModelAgreement(1.0, 0.5)))
                } to "max_disagreement",
                { it: Confidence ->
                    it.copy(familiarity = Familiarity(0.0, 5, 100, "5 1 6", "5 6 1"))
                } to "familiarity",
            )) {
            val error = assertThrows(BundleException::class.java) { opened(cases.first(), edit) }
            assertEquals(BundleFault.UNSUITABLE, error.fault)
            assertTrue(error.message, word in error.message.orEmpty())
        }
    }
}
