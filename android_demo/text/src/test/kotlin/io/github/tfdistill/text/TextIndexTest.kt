package io.github.tfdistill.text

import java.nio.ByteBuffer
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder

/** The index that tests/test_android/vectors.py made, searched as Python searched it. */
class TextIndexTest {
    @get:Rule val temporary = TemporaryFolder()
    private lateinit var copy: Copy
    private val name = "vectors-float32"
    private val folder = "bundles/$name/search"
    private val bundle = Resources.bundles.open(name)

    @Before
    fun copy() {
        copy = Copy(temporary.newFolder())
    }

    private fun fails(fault: BundleFault, vararg words: String) {
        val error =
            assertThrows(BundleException::class.java) {
                Bundles(copy).openIndex(Bundles(copy).open(name))
            }
        assertEquals(error.message, fault, error.fault)
        for (word in words) assertTrue("$word in ${error.message}", word in error.message.orEmpty())
    }

    private fun editCard(edit: (String) -> String) {
        val old = copy.text("$folder/index.json")
        val new = edit(old)
        check(new != old) { "the edit changed nothing" }
        copy.putListed("$folder/index.json", new.toByteArray())
    }

    /** Puts other content in the place of a file, and a card that agrees. */
    private fun replace(file: String, content: ByteArray) {
        val old = copy.open("$folder/$file").readBytes()
        copy.put("$folder/$file", content)
        editCard {
            it.replace(sha256(old), sha256(content))
                .replace("\"size_bytes\": ${old.size}", "\"size_bytes\": ${content.size}")
        }
    }

    @Test
    fun `texts get the ids, vectors, rows, scores and order of Python, bit for bit`() {
        val index = Resources.bundles.openIndex(bundle)
        val predictor = Predictor(bundle, Replay(bundle, Resources))
        val golden = goldenExamples(bundle, Resources).associateBy { it.getValue("text").string() }
        val searches = Resources.json("search.json").jsonArray.map { it.jsonObject }
        assertTrue(searches.size > 10)
        for (search in searches) {
            val text = search.getValue("text").string()
            val prediction = predictor.predict(text)
            val ids = golden.getValue(text).getValue("input_ids").ints()
            assertEquals(ids.map(bundle.vocabulary::token), prediction.tokens)
            val vector = (prediction.outcome as Outcome.Vector).values
            assertEquals(
                golden.getValue(text).getValue("outputs").floats().asList(),
                vector.asList(),
            )
            val expected =
                search
                    .getValue("matches")
                    .jsonArray
                    .map { it.jsonObject }
                    .map {
                        Match(
                            it.getValue("row").jsonPrimitive.int,
                            it.getValue("score").jsonPrimitive.double,
                            it.getValue("text").string(),
                            it.getValue("answer").string(),
                        )
                    }
            assertEquals(expected, index.search(vector, expected.size))
        }
    }

    /** The bundle's rows with labels as answers, as `routes` of tests/test_android/vectors.py. */
    private fun router(change: (TextIndexCard) -> TextIndexCard = { it }): TextIndex {
        val labels = routes.getValue("labels").jsonArray.map { it.jsonPrimitive.content }
        val lines = labels.joinToString("") { "{\"text\": \"-\", \"answer\": \"$it\"}\n" }
        val card = Resources.bundles.openIndex(bundle).card.copy(routes = fitted)
        val rows = ByteBuffer.wrap(Resources.open("$folder/vectors.int8").readBytes())
        return TextIndex(change(card), rows, lines.toByteArray())
    }

    private val routes = Resources.json("routes.json").jsonObject
    private val fitted =
        Json.decodeFromJsonElement(IndexRoutes.serializer(), routes.getValue("routes"))

    @Test
    fun `texts get the labels, scores, margins and sureness of Python, bit for bit`() {
        val golden = goldenExamples(bundle, Resources).associateBy { it.getValue("text").string() }
        val answers = routes.getValue("answers").jsonArray.map { it.jsonObject }
        assertTrue(answers.size > 10)
        for (answer in answers) {
            val vector = golden.getValue(answer.getValue("text").string()).getValue("outputs")
            val expected =
                Route(
                    answer.getValue("label").string(),
                    answer.getValue("score").jsonPrimitive.double,
                    answer.getValue("margin").jsonPrimitive.double,
                    answer.getValue("sure").jsonPrimitive.boolean,
                    answer.getValue("row").jsonPrimitive.int,
                )
            assertEquals(expected, router().route(vector.floats()))
        }
    }

    @Test
    fun `a score below the threshold of the index is not sure, and answers are no labels`() {
        val golden = goldenExamples(bundle, Resources).map { it.getValue("outputs").floats() }
        val sure = golden.first { router().route(it).sure }
        assertTrue(!router { it.copy(threshold = 1.0) }.route(sure).sure)
        assertTrue(router { it.copy(threshold = null) }.route(sure).sure)
        assertTrue(!Resources.bundles.openIndex(bundle).card.hasLabels)
        for ((faulty, fault) in
            listOf(
                Resources.bundles.openIndex(bundle) to BundleFault.UNSUITABLE,
                router { it.copy(routes = fitted.copy(thresholds = emptyMap())) } to
                    BundleFault.MALFORMED,
            )) {
            val error = assertThrows(BundleException::class.java) { faulty.route(sure) }
            assertEquals(fault, error.fault)
        }
    }

    private fun index(rows: List<List<Int>>, width: Int = rows.first().size): TextIndex {
        val bytes = rows.flatten().map { it.toByte() }.toByteArray()
        val lines = rows.indices.joinToString("") { "{\"text\": \"text $it\"}\n" }
        val card =
            Resources.bundles
                .openIndex(bundle)
                .card
                .copy(count = rows.size, width = width, modelWidth = width, answers = false)
        return TextIndex(card, ByteBuffer.wrap(bytes), lines.toByteArray())
    }

    @Test
    fun `of equal scores the first row comes first, over all blocks`() {
        val count = 40_000 // of 4 bytes: more than two blocks
        val rows = List(count) { listOf(1, it % 5 - 2, 0, 0) }
        val matches = index(rows).search(floatArrayOf(1f, 1f, 0f, 0f), 7)
        assertEquals(List(7) { 5 * it + 3 }, matches.map { it.row }) // (1, 1)
        assertEquals(1.0, matches.first().score, 1e-15)
        assertEquals("text 13", matches[2].text)
        val last = List(count) { if (it == count - 1) listOf(0, 0, 0, 9) else listOf(9, 1, 0, 0) }
        val nearest = index(last).search(floatArrayOf(0f, 0f, 0f, 3f), 2)
        assertEquals(listOf(count - 1, 0), nearest.map { it.row })
        assertEquals(listOf(1.0, 0.0), nearest.map { it.score })
    }

    @Test
    fun `fewer rows than asked for are all of them, and features beyond the width do not count`() {
        val index = index(listOf(listOf(1, 0), listOf(0, 1), listOf(-1, 0)))
        assertEquals(listOf(0, 1, 2), index.search(floatArrayOf(2f, 1f)).map { it.row })
        val cut =
            TextIndex(
                index.card.copy(modelWidth = 3),
                ByteBuffer.wrap(ByteArray(6) { 1 }),
                "{\"text\": \"a\"}\n".repeat(3).toByteArray(),
            )
        assertEquals(0.0, cut.search(floatArrayOf(1f, -1f, 99f), 1).single().score, 0.0)
    }

    @Test
    fun `a vector of another width, without direction or number is refused`() {
        val index = index(listOf(listOf(1, 0)))
        for (wrong in listOf(floatArrayOf(1f), FloatArray(2), floatArrayOf(1f, Float.NaN))) {
            val error = assertThrows(BundleException::class.java) { index.search(wrong) }
            assertEquals(BundleFault.UNSUITABLE, error.fault)
        }
    }

    @Test
    fun `bundles without an index are not searchable, and that is said`() {
        assertEquals(listOf(name), Resources.bundles.searchable())
        copy.recordSearch("[]") // the files are there, but of another model
        assertEquals(emptyList<String>(), Bundles(copy).searchable())
        fails(BundleFault.MISSING, "tfdistill index")
        copy = Copy(temporary.newFolder())
        copy.folder.resolve("$folder/index.json").delete()
        assertEquals(listOf(name), Bundles(copy).searchable())
        fails(BundleFault.MISSING, "tfdistill index")
        copy.recordSearch(null)
        assertEquals(emptyList<String>(), Bundles(copy).searchable())
        fails(BundleFault.MISSING, "tfdistill index")
    }

    @Test
    fun `an index that is not the recorded one is found, and one without a record is opened`() {
        val card = "$folder/index.json"
        copy.put(card, copy.open(card).readBytes() + '\n'.code.toByte())
        fails(BundleFault.TAMPERED, card, "index again")
        copy.recordSearch(null)
        assertEquals(60, Bundles(copy).openIndex(Bundles(copy).open(name)).card.count)
    }

    @Test
    fun `a file that is missing, changed or cut is found`() {
        for (file in listOf("vectors.int8", "texts.jsonl")) {
            copy = Copy(temporary.newFolder())
            val content = copy.open("$folder/$file").readBytes()
            copy.put("$folder/$file", content.copyOf(content.size - 1))
            fails(BundleFault.TAMPERED, file)
            copy.put("$folder/$file", content.also { it[3]++ })
            fails(BundleFault.TAMPERED, file)
            copy.folder.resolve("$folder/$file").delete()
            fails(BundleFault.MISSING, file, "tfdistill index")
        }
    }

    @Test
    fun `an index of another model, of a later version or of no format is refused`() {
        val digest = bundle.manifest.model.sha256
        val edits =
            listOf<Triple<(String) -> String, BundleFault, String>>(
                Triple({ it.replace(digest, "0".repeat(64)) }, BundleFault.UNSUITABLE, digest),
                Triple({ it.replace("\": 1,", "\": 2,") }, BundleFault.NEWER, "received 2"),
                Triple({ it.replace("\"name\"", "\"names\"") }, BundleFault.MALFORMED, "'name'"),
                Triple({ it.take(99) }, BundleFault.MALFORMED, "index.json"),
                Triple({ "[".repeat(100_000) }, BundleFault.MALFORMED, "index.json"),
            )
        for ((edit, fault, word) in edits) {
            copy = Copy(temporary.newFolder())
            editCard(edit)
            fails(fault, word)
        }
    }

    @Test
    fun `sizes that cannot be right are refused before anything is made of them`() {
        val edits =
            listOf(
                "\"count\": 60" to "\"count\": 0",
                "\"count\": 60" to "\"count\": -60",
                "\"count\": 60" to "\"count\": 2147483647",
                "\"count\": 60" to "\"count\": 61",
                "\"width\": 16" to "\"width\": 0",
                "\"width\": 16" to "\"width\": 17",
                "\"model_width\": 16" to "\"model_width\": 32",
                "\"threshold\": 0.95" to "\"threshold\": 1.5",
                "\"vectors.int8\"" to "\"../vectors.int8\"",
                "\"size_bytes\": 960" to "\"size_bytes\": 961",
            )
        for ((old, new) in edits) {
            copy = Copy(temporary.newFolder())
            editCard { it.replace(old, new) }
            fails(BundleFault.UNSUITABLE)
        }
        copy = Copy(temporary.newFolder())
        editCard { it.replace("\"threshold\": 0.95", "\"threshold\": null") }
        assertEquals(null, Bundles(copy).openIndex(Bundles(copy).open(name)).card.threshold)
    }

    @Test
    fun `rows of zeros, and lines that are not as many as rows, are malformed`() {
        replace("vectors.int8", ByteArray(960) { if (it < 16) 0 else 1 })
        fails(BundleFault.MALFORMED, "row 0")
        val line = "{\"text\": \"a\", \"answer\": \"b\"}\n"
        for (lines in listOf(line.repeat(59), line.repeat(61), line.repeat(60) + "{", "", "\n")) {
            copy = Copy(temporary.newFolder())
            replace("texts.jsonl", lines.toByteArray())
            fails(BundleFault.MALFORMED, "60 lines")
        }
    }

    @Test
    fun `a line is read when it is shown, and refused when it is none`() {
        val vector = goldenExamples(bundle, Resources).first().getValue("outputs").floats()
        for (line in listOf("{\"text\": \"a\"}", "{\"text\": 1}", "{}", "[]", "[".repeat(99_999))) {
            copy = Copy(temporary.newFolder())
            replace("texts.jsonl", "$line\n".repeat(60).toByteArray())
            val index = Bundles(copy).openIndex(Bundles(copy).open(name))
            val error = assertThrows(BundleException::class.java) { index.search(vector) }
            assertEquals(BundleFault.MALFORMED, error.fault)
            assertTrue(error.message, "texts.jsonl, line" in error.message.orEmpty())
        }
        assertTrue(goldenExamples(bundle, Resources).all { it["pair"] is JsonNull })
    }

    @Test
    fun `vectors have errors and no labels where a device is compared`() {
        val golden = GoldenExamples.read(bundle, Resources)
        val same = AnswerCheck(bundle, golden).parity(Replay(bundle, Resources))
        assertTrue("$same", same.passed)
        val other = AnswerCheck(bundle, golden).parity(Replay(bundle, Resources) { -it })
        assertEquals(emptyList<String>(), other.changed)
        assertTrue(!other.passed)
        val rows = AnswerCheck(bundle, golden).check(Replay(bundle, Resources))
        assertTrue(rows.isNotEmpty() && rows.all { it.argmaxAgreement == null })
    }
}
