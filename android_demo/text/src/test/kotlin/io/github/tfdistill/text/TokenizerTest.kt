package io.github.tfdistill.text

import java.io.File
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test

class TokenizerTest {
    private val bundle = Resources.bundles.open("pairs-float32")
    private val tokenizer = bundle.tokenizer

    private fun String.tokens() =
        tokenizer.encode(this, maxLength = 64).ids.map(bundle.vocabulary::token)

    @Test
    fun `splits every tokenizer edge case into the words of the Python side`() {
        val lines = Resources.lines("words.jsonl")
        val tokenizers =
            listOf(true, false).associateWith { WordPieceTokenizer(bundle.vocabulary, it) }
        val wrong =
            lines.filter { line ->
                val words =
                    tokenizers
                        .getValue(line.getValue("lower_case").flag())
                        .words(line.getValue("text").string())
                words.joinToString(" ") != line.getValue("words").string()
            }
        assertEquals("of ${lines.size} texts", emptyList<JsonObject>(), wrong)
        assertTrue(lines.size > 2000)
    }

    @Test
    fun `gives the ids of the golden vectors of every bundle`() {
        for (name in Resources.bundles.index().bundles.keys) {
            assertGolden(
                Resources.text("bundles/$name/tokens.jsonl"),
                Resources.bundles.open(name).tokenizer,
            )
        }
    }

    /** Thousands of real sentences with a real vocabulary, where a folder of them is named. */
    @Test
    fun `gives the ids of the golden vectors of a real vocabulary`() {
        val folder = System.getProperty("tfdistill.vectors").orEmpty()
        assumeTrue(folder.isNotEmpty())
        val vocabulary = Vocabulary.parse(File(folder, "vocab.txt").readBytes())
        assertGolden(
            File(folder, "tokens.jsonl").readText(),
            WordPieceTokenizer(vocabulary, lowerCase = true),
        )
    }

    /** The same of real models, each with its own vocabulary, where a folder of them is named. */
    @Test
    fun `gives the ids of the golden vectors of exported models`() {
        val (source, bundles) = exported()
        for (bundle in bundles) {
            val lowerCase = bundle.manifest.tokenizer?.lowerCase == true
            assertGolden(
                source.text(bundle.pathOf(bundle.entry.tokens)),
                bundle.tokenizer,
                lowerCase,
            )
        }
    }

    private fun assertGolden(content: String, tokenizer: Tokenizer, lowerCase: Boolean = true) {
        val lines = content.trim().lines()
        val cases = lines.map { BundleJson.json.parseToJsonElement(it) as JsonObject }
        val header = cases.first()
        assertEquals(lowerCase, header["lower_case"]?.flag() ?: false)
        assertEquals(tokenizer.vocabulary.size, header.getValue("vocab_size").jsonPrimitive.int)
        assertEquals(cases.size - 1, header.getValue("num_cases").jsonPrimitive.int)
        assertTrue(cases.size > 200)
        for (case in cases.drop(1)) {
            val text = case.getValue("text").string()
            val pair = case["pair"]?.string()
            val encoding =
                tokenizer.encode(text, pair, case.getValue("max_length").jsonPrimitive.int)
            val ids = case.getValue("input_ids").ints()
            assertEquals(case.toString(), ids, encoding.ids.asList())
            val types = case["token_type_ids"]?.ints() ?: List(ids.size) { 0 }
            assertEquals(case.toString(), types, encoding.types.asList())
        }
    }

    @Test
    fun `a text that loses its middle keeps the tokens of the Python side`() {
        val cutter = WordPieceTokenizer(bundle.vocabulary, lowerCase = true, Truncation.MIDDLE)
        val lines = Resources.lines("cut.jsonl")
        for (line in lines) {
            val pair = line["pair"]?.string()
            val most = line.getValue("max_length").jsonPrimitive.int
            val encoding = cutter.encode(line.getValue("text").string(), pair, most)
            assertEquals(line.toString(), line.getValue("ids").ints(), encoding.ids.asList())
            assertEquals(line.toString(), line.getValue("types").ints(), encoding.types.asList())
        }
        assertTrue(lines.size > 200)
    }

    @Test
    fun `says where each piece stands`() {
        for (line in Resources.lines("places.jsonl")) {
            val text = line.getValue("text").string()
            val pieces = tokenizer.pieces(text)
            assertEquals(line.toString(), line.getValue("ids").ints(), pieces.ids.asList())
            val parts = List(pieces.size) { text.substring(pieces.starts[it], pieces.ends[it]) }
            assertEquals(
                line.getValue("parts").toString(),
                BundleJson.json.run {
                    parts.joinToString(",", "[", "]") {
                        encodeToString(kotlinx.serialization.serializer<String>(), it)
                    }
                },
            )
        }
    }

    @Test
    fun `an empty text is two special tokens, and an empty second text has its own`() {
        assertEquals(listOf("[CLS]", "[SEP]"), "".tokens())
        assertEquals(listOf("[CLS]", "[SEP]"), " \t\n\u0000\u200b".tokens())
        assertEquals(4, tokenizer.encode("good film", null, 9).size)
        for (second in listOf("", " ")) {
            val pair = tokenizer.encode("good film", second, 9)
            assertEquals(List(2) { bundle.vocabulary.sepId }, pair.ids.drop(3))
            assertEquals(listOf(0, 0, 0, 0, 1), pair.types.asList())
        }
    }

    @Test
    fun `special tokens that a user types are ordinary text`() {
        assertFalse(listOf("[MASK]", "[SEP]").any { it in "a [MASK] b [SEP]".tokens().dropLast(1) })
    }

    @Test
    fun `lone surrogates are dropped and do not split a word`() {
        assertEquals("good".tokens(), "go\ud83dod".tokens())
        assertEquals("good".tokens(), "\ude00good\ud83d".tokens())
    }

    @Test
    fun `a text of 100 kB takes memory and time in proportion`() {
        for (unit in
            listOf(
                "good film, ",
                "a",
                "日本",
                "e\u0301",
                "\u0301",
                "x".repeat(100) + " ",
                "\u302e\u302f",
            )) {
            val text = unit.repeat(100_000 / unit.length)
            val encoding = tokenizer.encode(text, text, 24)
            assertTrue(encoding.size <= 24)
        }
        val words = tokenizer.encode("good film, ".repeat(9_000), maxLength = 24)
        assertEquals(27_002, words.wholeLength)
        assertTrue(words.isCut)
    }

    @Test
    fun `a pair needs room for its special tokens`() {
        assertEquals(3, tokenizer.encode("good", "bad", 3).size)
        assertThrows(IllegalArgumentException::class.java) { tokenizer.encode("good", "bad", 2) }
        assertThrows(IllegalArgumentException::class.java) { tokenizer.encode("good", null, 1) }
    }

    @Test
    fun `a vocabulary that cannot be right is refused`() {
        val special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
        assertEquals(6, Vocabulary.parse("\uFEFF${special}a\r\n".toByteArray()).size)
        val wrong =
            mapOf(
                "" to "a token on each line",
                special + "a\n\nb\n" to "received none on 7",
                special + "a\na\n" to "'a' on 6 and 7",
                "a\n" to "without [[PAD]",
            )
        for ((content, message) in wrong) {
            val error =
                assertThrows(BundleException::class.java) {
                    Vocabulary.parse(content.toByteArray())
                }
            assertTrue(error.message, message in error.message.orEmpty())
        }
        val latin = special.toByteArray() + 0xE9.toByte()
        assertThrows(BundleException::class.java) { Vocabulary.parse(latin) }
    }
}
