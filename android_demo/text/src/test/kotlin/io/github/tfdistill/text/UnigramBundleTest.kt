package io.github.tfdistill.text

import java.io.File
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder

/** The toys, each with the small Unigram tokenizer in place of its own. */
class UnigramBundleTest {
    @get:Rule val temporary = TemporaryFolder()
    private lateinit var copy: Copy
    private val vocab = "tokenizer.json"
    private val file = Resources.open("unigram.json").readBytes()
    private val plain =
        UnigramFile.read(file, Resources.bundles.open("pairs-float32").manifest.tokenizer!!)

    @Before
    fun copy() {
        copy = Copy(temporary.newFolder())
    }

    private fun bundle(name: String, kind: String = "unigram", more: String = ""): Bundle {
        copy.put("bundles/$name/$vocab", file)
        val content =
            """{"file": "$vocab", "sha256": "${sha256(file)}", "size_bytes": ${file.size}}"""
        val size = plain.vocabulary.size
        val tokenizer =
            """{"kind": "$kind", "vocab": $content, "vocab_size": $size, "lower_case": false,
                "max_length": 24$more}"""
        copy.editManifest(name) { card ->
            val whole = Json.parseToJsonElement(card).jsonObject
            val record = Json.parseToJsonElement(tokenizer)
            "${JsonObject(whole + ("tokenizer" to record))}"
        }
        return Bundles(copy).open(name)
    }

    /** Answers with what [outputs] makes of the ids. */
    private fun predictor(bundle: Bundle, outputs: (List<Int>) -> Map<String, FloatArray>) =
        Predictor(
            bundle,
            object : ModelRunner {
                override val signatures = bundle.signatures

                override fun run(signature: String, inputs: Map<String, IntArray>) =
                    outputs(inputs.getValue("input_ids").asList())

                override fun close() = Unit
            },
        )

    private fun fails(name: String, word: String, kind: String = "unigram", more: String = "") {
        val error = assertThrows(BundleException::class.java) { bundle(name, kind, more) }
        assertEquals(error.message, BundleFault.UNSUITABLE, error.fault)
        assertTrue("$word in ${error.message}", word in error.message.orEmpty())
        copy = Copy(temporary.newFolder())
    }

    @Test
    fun `texts of every kind of bundle become the ids of its tokenizer`() {
        for (name in Bundles(copy).names()) {
            val bundle = bundle(name)
            assertEquals(plain.vocabulary.size, bundle.vocabulary.size)
            assertEquals(1, bundle.vocabulary.padId)
            val encoding = bundle.tokenizer.encode("good film", "日本", 24)
            assertEquals(plain.encode("good film", "日本", 24).ids.asList(), encoding.ids.asList())
        }
    }

    @Test
    fun `what cannot be right is refused`() {
        val pairs = "pairs-float32"
        fails(pairs, "expected one of [wordpiece, unigram], received bpe", kind = "bpe")
        val short = ", \"max_length\": 3"
        fails(pairs, "max_length of the tokenizer: expected at least 4, received 3", more = short)
        val size = ", \"vocab_size\": 66"
        fails(pairs, "tokens of $pairs: expected 66", more = size)
        for (name in listOf("spans-float32", "tags-float32")) {
            fails(name, "prompt of the tokenizer", more = ", \"prompt\": \"query: \"")
        }
        fails("spans-float32", "max_question_length", more = ", \"max_length\": 9")
    }

    @Test
    fun `a prompt stands before the first text, of both kinds`() {
        val prompt = "a good: "
        val unigram = bundle("pairs-float32", more = ", \"prompt\": \"$prompt\"").tokenizer
        val wordPiece =
            Copy(temporary.newFolder())
                .apply {
                    editManifest("pairs-float32") {
                        it.replace("\"lower_case\"", "\"prompt\": \"$prompt\", \"lower_case\"")
                            .replace(
                                "\"softmax\"",
                                "\"requires\": [\"tokenizer.prompt\"], \"softmax\"",
                            )
                    }
                }
                .let { Bundles(it).open("pairs-float32").tokenizer }
        val toy = Resources.bundles.open("pairs-float32").tokenizer
        for ((prompted, without) in listOf(unigram to plain, wordPiece to toy)) {
            for (second in listOf(null, "", "good story")) {
                assertEquals(
                    without.encode(prompt + "film", second, 24).ids.asList(),
                    prompted.encode("film", second, 24).ids.asList(),
                )
            }
            val pieces = without.pieces("film").ids.asList()
            assertEquals(pieces, prompted.pieces("film").ids.asList())
        }
    }

    @Test
    fun `a text gets its label and its tokens, and says which are unknown`() {
        val bundle = bundle("pairs-float32")
        val labels = floatArrayOf(0.1f, 0.7f, 0.2f)
        val prediction = predictor(bundle) { mapOf("scores" to labels) }.predict("films Zз", "ñ")
        assertEquals(bundle.task.labels[1], prediction.label)
        val tokens = "<s> ▁film s ▁ <unk> </s> </s> ▁ ñ </s>"
        assertEquals(tokens, prediction.tokens.joinToString(" "))
        assertEquals("<unk>", prediction.unknownToken)
        assertEquals("[UNK]", replayed("vectors-float32").unknownToken)
    }

    private fun replayed(name: String): Prediction {
        val toy = Resources.bundles.open(name)
        val text = GoldenExamples.read(toy, Resources).texts.first().first
        return Predictor(toy, Replay(toy, Resources)).predict(text)
    }

    @Test
    fun `a text has a vector, which is searched for`() {
        val bundle = bundle("vectors-float32")
        val index = Bundles(copy).openIndex(bundle)
        val vector = FloatArray(16) { it - 7.5f }
        val outcome = predictor(bundle) { mapOf("embedding" to vector) }.predict("日本").outcome
        assertEquals(10, index.search((outcome as Outcome.Vector).values).size)
    }

    @Test
    fun `each word has the tag of the piece that holds its first character`() {
        val bundle = bundle("tags-float32")
        val good = checkNotNull(plain.vocabulary.id("▁good"))
        val predictor =
            predictor(bundle) { ids ->
                mapOf(
                    "logits" to
                        FloatArray(ids.size * 3) {
                            if (ids[it / 3] == good && it % 3 == 1) 9f else 0f
                        }
                )
            }
        val words = List(12) { if (it % 2 == 0) "good" else "films" }
        val prediction = predictor.predict(words.joinToString(" \u00ad"))
        val outcome = prediction.outcome as Outcome.Tags
        assertEquals(words, outcome.words)
        assertEquals(words.map { if (it == "good") "B-PER" else "O" }, outcome.tags)
        val windows = TaggedText(bundle.tokenizer, words.joinToString(" "), 8).windows
        assertEquals(
            List(windows.size) { 0 to 2 },
            windows.map { it.encoding.ids.run { first() to last() } },
        )
        assertEquals(listOf(0, 3, 6, 9, 12), windows.map { it.first })
    }

    @Test
    fun `an answer is the part of the text where its pieces stand`() {
        val bundle = bundle("spans-float32")
        val text = "😀 ｇood \u00adfilms 日本 " + "a ".repeat(30)
        val film = checkNotNull(plain.vocabulary.id("▁film"))
        val predictor =
            predictor(bundle) { ids ->
                assertEquals(List(2) { plain.vocabulary.sepId }, ids.subList(3, 5))
                val starts = FloatArray(24) { if (ids.getOrNull(it + 1) == film) 9f else 0f }
                mapOf(
                    Spans.START to starts,
                    Spans.END to FloatArray(24) { starts.getOrElse(it - 2) { 0f } },
                )
            }
        val answer = (predictor.predict("good film", text).outcome as Outcome.Found).answer
        assertEquals("ｇood \u00adfilms", answer.text)
        assertEquals(text.indexOf("ｇ"), answer.start)
        assertEquals(answer.text, text.substring(answer.start, answer.end))
    }

    @Test
    fun `starts in the question do not count where a device is compared, those in the text do`() {
        val bundle = bundle("spans-float32")
        val spans = Spans(bundle.tokenizer, checkNotNull(bundle.task.span), 24)
        val encoding = spans.question("good", "film film").windows.single().encoding
        val ids = encoding.ids.asList()
        assertEquals("[0, 5, 2, 2, 6, 6, 2]", "$ids")
        val outputs =
            JsonArray(ids.indices.map { at -> JsonArray(List(2) { JsonPrimitive(at % 5) }) })
        val golden =
            GoldenExamples(listOf(GoldenExample(null, null, ids, encoding.types.asList(), outputs)))
        fun changed(place: Int): Boolean {
            val replay = GoldenRunner(bundle, golden)
            val runner =
                object : ModelRunner by replay {
                    override fun run(signature: String, inputs: Map<String, IntArray>) =
                        replay.run(signature, inputs).mapValues { (_, values) ->
                            values.also { it[place] = 50f }
                        }
                }
            return AnswerCheck(bundle, golden).parity(runner).changed.isNotEmpty()
        }
        assertEquals(listOf(0, 5), ids.indices.filter(::changed)) // the largest stands at 4
    }

    @Test
    fun `a bundle is downloaded with its tokenizer`() {
        val name = "pairs-float32"
        val bundle = bundle(name)
        val folder = File(temporary.root, "models")
        val downloads = DownloadedBundle(folder, name) { Replay(bundle, copy) }
        assertTrue(downloads.update(copy))
        assertFalse(downloads.update(copy))
        assertTrue(downloads.open() != null)
        val (stored) = folder.walk().filter { it.name == vocab }.toList()
        stored.writeBytes(file.copyOf(file.size - 1))
        assertThrows(BundleException::class.java) { downloads.open() }
    }
}
