package io.github.tfdistill.text

import java.io.File
import kotlin.math.ln
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

/** From text to the answer of the Python side, with the outputs that the file gave there. */
class GoldenAnswersTest {
    private fun golden(name: String) = Resources.json("bundles/$name/golden.json").jsonObject

    private fun JsonObject.list(key: String) = getValue(key).jsonArray.map { it.jsonObject }

    @Test
    fun `texts become the ids, types and signatures of the golden examples`() {
        val bundle = Resources.bundles.open("pairs-float32")
        val examples = golden("pairs-float32").list("examples").filter { it["text"] !is JsonNull }
        assertTrue(examples.size > 10)
        for (example in examples) {
            val pair = example["pair"].takeUnless { it is JsonNull }?.string()
            val encoding = bundle.tokenizer.encode(example.getValue("text").string(), pair, 24)
            assertEquals(example.getValue("input_ids").ints(), encoding.ids.asList())
            assertEquals(example.getValue("token_type_ids").ints(), encoding.types.asList())
            val feed = bundle.lengths.feed(encoding, bundle.vocabulary.padId)
            assertEquals(example.getValue("signature").string(), feed.signature)
        }
        assertEquals(
            setOf("len16", "len24"),
            examples.map { it.getValue("signature").string() }.toSet(),
        )
    }

    @Test
    fun `an example is padded by name`() {
        val bundle = Resources.bundles.open("pairs-float32")
        val encoding = bundle.tokenizer.encode("good", "bad", 24)
        val feed = bundle.lengths.feed(encoding, 0)
        assertEquals(setOf("input_ids", "attention_mask", "token_type_ids"), feed.inputs.keys)
        assertArrayEquals(encoding.ids.copyOf(16), feed.inputs["input_ids"])
        assertEquals(List(16) { if (it < 5) 1 else 0 }, feed.inputs["attention_mask"]?.asList())
        assertEquals(List(16) { if (it in 3..4) 1 else 0 }, feed.inputs["token_type_ids"]?.asList())
        val padded = bundle.lengths.feed(encoding, 9, 24)
        assertEquals("len24", padded.signature)
        assertEquals(List(19) { 9 }, padded.inputs["input_ids"]?.drop(5))
        assertThrows(IllegalArgumentException::class.java) { bundle.lengths.signatureFor(25) }
        assertEquals(listOf("len16", "len24"), listOf(16, 17).map(bundle.lengths::signatureFor))
    }

    @Test
    fun `probabilities of the file are those of its logits`() {
        val card = Resources.bundles.open("pairs-float32").manifest
        for (example in golden("pairs-float32").list("examples")) {
            val logits = example.getValue("logits").floats()
            val outputs = example.getValue("outputs").floats()
            val message = Answers.labels(outputs, card)
            val expected = Answers.labels(logits, card.copy(softmax = false))
            assertEquals(message.map { it.label }, expected.map { it.label })
            // Seven digits of each output.
            message.zip(expected).forEach { (a, b) ->
                assertEquals(a.probability, b.probability, 2e-5)
            }
            assertEquals(1.0, expected.sumOf { it.probability }, 1e-12)
            assertEquals(card.task?.labels?.get(Answers.argmax(logits)), expected.first().label)
        }
    }

    /**
     * Real models' outputs, where a folder of them is named; the Python side reads what is message.
     */
    @Test
    fun `texts of exported models get the labels of the outputs that the files gave`() {
        val (source, bundles) = exported()
        val message = ArrayList<JsonObject>()
        for (bundle in bundles.filter { it.task.kind == TaskKind.CLASSIFICATION }) {
            val predictor = Predictor(bundle, Replay(bundle, source))
            for (example in goldenExamples(bundle, source).filter { it["text"] !is JsonNull }) {
                val text = example.getValue("text").string()
                val pair = example["pair"]?.jsonPrimitive?.contentOrNull
                val prediction =
                    predictor.predict(text, if (bundle.task.pair) pair.orEmpty() else null)
                val ids = example.getValue("input_ids").ints()
                assertEquals(ids.map(bundle.vocabulary::token), prediction.tokens)
                val labels = (prediction.outcome as Outcome.Labels).labels
                val best = Answers.argmax(example.getValue("outputs").floats())
                assertEquals(text, bundle.task.labels[best], labels.first().label)
                message += buildJsonObject {
                    put("bundle", bundle.name)
                    put("text", text)
                    putJsonObject("probabilities") {
                        for (scored in labels) put(scored.label, scored.probability)
                    }
                }
            }
        }
        assertTrue("no text among the golden examples", message.isNotEmpty())
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(it, "answers.jsonl").writeText(message.joinToString("\n")) }
    }

    @Test
    fun `labels that do not exclude each other have a probability each`() {
        val card = Resources.bundles.open("pairs-float32").manifest
        val several =
            card.copy(softmax = false, task = card.task?.copy(kind = TaskKind.MULTI_LABEL))
        val labels = Answers.labels(floatArrayOf(0f, -800f, 800f), several)
        assertEquals(listOf(Scored("maybe", 1.0), Scored("no", 0.5), Scored("yes", 0.0)), labels)
        assertEquals(0.11920292202211755, Answers.sigmoid(-2.0), 1e-16) // scipy.special.expit(-2)
    }

    @Test
    fun `extreme logits stay probabilities and broken ones are no answer`() {
        assertArrayEquals(
            doubleArrayOf(0.0, 1.0),
            Answers.softmax(floatArrayOf(-3e38f, 3e38f)),
            0.0,
        )
        val card = Resources.bundles.open("pairs-float32").manifest
        for (broken in listOf(Float.NaN, Float.POSITIVE_INFINITY)) {
            val outputs = floatArrayOf(0f, broken, 0f)
            val error = assertThrows(BundleException::class.java) { Answers.labels(outputs, card) }
            assertTrue(error.message, "output 1" in error.message.orEmpty())
        }
    }

    @Test
    fun `words get the tags of the golden sentences`() {
        val bundle = Resources.bundles.open("tags-float32")
        val golden = golden("tags-float32")
        val examples = golden.list("examples")
        val sentences = golden.list("sentences")
        assertTrue(sentences.size > 5)
        for (sentence in sentences) {
            val example = examples[sentence.getValue("example").jsonPrimitive.int]
            val text = sentence.getValue("text").string()
            val places = sentence.getValue("offsets").jsonArray.map { it.ints() }
            val (starts, ends) =
                listOf(0, 1).map { side ->
                    places.map { text.offsetByCodePoints(0, it[side]) }.toIntArray()
                }
            val input = TaggedText(bundle.tokenizer, text, 24, WordPlaces(starts, ends))
            val encoding = input.windows.single().encoding
            assertEquals(example.getValue("input_ids").ints(), encoding.ids.asList())
            assertEquals(sentence.getValue("words").jsonArray.map { it.string() }, input.words())
            val counts = input.firstWords.asList().zipWithNext { first, next -> next - first }
            val pieces =
                input.rows.single().zip(counts).flatMap { (row, count) -> List(count) { row } }
            assertEquals(sentence.getValue("first_pieces").ints(), pieces)
            val outputs = example.getValue("outputs").jsonArray.map { it.floats() }
            val scores = input.rows.single().map { Answers.logits(outputs[it], bundle.manifest) }
            val rules = TagRules(bundle.task.labels)
            val path = TagPath(rules, scores, 1.0)
            val tags =
                counts.flatMapIndexed { token, count -> rules.ofWords(path.tags[token], count) }
            assertEquals(
                sentence.getValue("tags").jsonArray.map { it.string() },
                tags.map(bundle.task.labels::get),
            )
        }
        val tags = sentences.flatMap { it.getValue("tags").jsonArray }.map { it.string() }.toSet()
        assertEquals(bundle.task.labels.toSet(), tags)
    }

    @Test
    fun `a long text gets a tag for each word, as probable as all of them together on their path`() {
        val bundle = Resources.bundles.open("tags-float32")
        val wide = bundle.task.labels.size
        val runner =
            object : ModelRunner {
                override val signatures = bundle.signatures

                override fun run(signature: String, inputs: Map<String, IntArray>) =
                    mapOf(
                        "logits" to
                            FloatArray(inputs.getValue("input_ids").size * wide) {
                                (it % wide).toFloat()
                            }
                    )

                override fun close() = Unit
            }
        val most = bundle.lengths.maxLength
        val words = List(3 * most) { if (it % 3 == 0) "films" else "good" }
        val prediction = Predictor(bundle, runner).predict(words.joinToString(" "))
        val outcome = prediction.outcome as Outcome.Tags
        assertEquals(words, outcome.words)
        // The best path: B-PER, and I-PER from there on.
        assertEquals(List(words.size) { bundle.task.labels[minOf(it + 1, 2)] }, outcome.tags)
        assertEquals(8, prediction.inferences)
        val one = Answers.softmax(FloatArray(wide) { it.toFloat() }).max()
        val first = Answers.softmax(FloatArray(2) { it.toFloat() }).max() // O or B-PER
        val expected = ln(first) + (words.size - 1) * ln(one)
        assertEquals(expected, ln(checkNotNull(prediction.probability)), 1e-9)
    }

    @Test
    fun `questions get the windows and answers of the golden questions`() {
        val bundle = Resources.bundles.open("spans-float32")
        val golden = golden("spans-float32")
        val examples = golden.list("examples")
        val questions = golden.list("questions")
        val spans = Spans(bundle.tokenizer, checkNotNull(bundle.task.span), 24)
        for (row in questions) {
            val question =
                spans.question(row.getValue("question").string(), row.getValue("context").string())
            val windows = row.getValue("examples").ints().map { examples[it] }
            assertEquals(
                windows.map { it.getValue("input_ids").ints() },
                question.windows.map { it.encoding.ids.asList() },
            )
            assertEquals(
                windows.map { it.getValue("token_type_ids").ints() },
                question.windows.map { it.encoding.types.asList() },
            )
            val outputs =
                windows.map { it.getValue("outputs").jsonArray.map { row -> row.floats() } }
            val starts =
                outputs.map { rows -> FloatArray(24) { if (it < rows.size) rows[it][0] else 99f } }
            val ends =
                outputs.map { rows -> FloatArray(24) { if (it < rows.size) rows[it][1] else 99f } }
            val answer = spans.decode(question, starts, ends)
            assertEquals(row.getValue("answer").string(), answer.text)
            assertEquals(answer.text, question.context.substring(answer.start, answer.end))
            val score = row.getValue("score")
            // Sums of two numbers of seven digits.
            if (score !is JsonNull) assertEquals(score.jsonPrimitive.double, answer.score, 1e-5)
            assertEquals(row.getValue("null_score").jsonPrimitive.double, answer.nullScore, 1e-5)
        }
        assertTrue(questions.size > 5)
        assertTrue(questions.any { it.getValue("answer").string().isEmpty() })
        assertTrue(questions.count { it.getValue("answer").string().isNotEmpty() } > 2)
        assertTrue(questions.any { it.getValue("examples").jsonArray.size > 2 })
    }

    @Test
    fun `a question without a text has no answer and an overlong one leaves no piece out`() {
        val bundle = Resources.bundles.open("spans-float32")
        val rules = checkNotNull(bundle.task.span)
        val spans = Spans(bundle.tokenizer, rules, 24)
        val empty = spans.question("who?", "")
        val answer = spans.decode(empty, listOf(FloatArray(24)), listOf(FloatArray(24)))
        assertEquals(Answer("", 0, 0, Double.NEGATIVE_INFINITY, 0.0), answer)
        val wide = Spans(bundle.tokenizer, rules.copy(docStride = 100), 24)
        val question = wide.question("who?", "good ".repeat(90))
        val seen = question.windows.flatMap { it.first until it.first + it.count }.toSet()
        assertEquals((0 until 90).toSet(), seen)
    }

    @Test
    fun `of two windows that show as much around a piece the first answers for it`() {
        val bundle = Resources.bundles.open("spans-float32")
        val rules = checkNotNull(bundle.task.span).copy(docStride = 5)
        val question = Spans(bundle.tokenizer, rules, 24).question("who", "good ".repeat(25))
        assertEquals(listOf(0, 5), question.windows.map { it.first })
        // Piece 12 stands 7 pieces from the end of the first and from the start of the second.
        assertEquals(List(13) { 0 } + List(12) { 1 }, question.bestWindow.asList())
    }
}
