package io.github.tfdistill.text

import java.io.File
import java.util.Base64
import java.util.Locale
import kotlin.random.Random
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class UnigramTokenizerTest {
    private val file = Resources.text("unigram.json")
    private val tokenizer = read(file)
    private val table = Regex("\"precompiled_charsmap\":\"(.*?)\"").find(file)!!.groupValues[1]

    private fun read(content: String, truncation: Truncation = Truncation.END) =
        UnigramFile.read(content.toByteArray(), record(truncation))

    private fun record(truncation: Truncation = Truncation.END) =
        Resources.bundles.open("pairs-float32").manifest.tokenizer!!.copy(truncation = truncation)

    private fun String.tokens() =
        tokenizer.pieces(this).ids.joinToString(" ", transform = tokenizer.vocabulary::token)

    /** Whole vocabularies too, where a folder of name.json and name.jsonl is named. */
    @Test
    fun `gives the pieces of the library and their places, whatever the language of the phone`() {
        val usual = Locale.getDefault()
        val folder = File(System.getProperty("tfdistill.unigram").orEmpty())
        val others = folder.listFiles { it -> it.extension == "json" }.orEmpty()
        try {
            for (language in listOf("en-US", "tr-TR", "ar-EG-u-nu-arab", "th-TH-u-ca-buddhist")) {
                Locale.setDefault(Locale.forLanguageTag(language))
                assertGolden(read(file), Resources.text("unigram.jsonl"))
                for (other in others) {
                    assertGolden(read(other.readText()), File("${other}l").readText())
                }
            }
        } finally {
            Locale.setDefault(usual)
        }
    }

    private fun assertGolden(tokenizer: Tokenizer, content: String) {
        val lines = content.trim().lines().map { Json.parseToJsonElement(it).jsonObject }
        val wrong =
            lines.filter { line ->
                val text = line.getValue("text").string()
                val pieces = tokenizer.pieces(text)
                val pair = tokenizer.encode(text, line.getValue("pair").string(), 1 shl 20)
                pieces.ids.asList() != line.getValue("ids").ints() ||
                    pieces.starts.asList() != line.getValue("starts").ints() ||
                    pieces.ends.asList() != line.getValue("ends").ints() ||
                    pair.ids.asList() != line.getValue("pair_ids").ints() ||
                    pair.types.any { it != 0 }
            }
        assertEquals("of ${lines.size} texts", emptyList<JsonObject>(), wrong.take(3))
        assertTrue(lines.size > 500)
    }

    @Test
    fun `a text has a token at each end and a pair two between its texts`() {
        fun tokens(second: String?, most: Int = 9) =
            tokenizer.encode("films", second, most).ids.map(tokenizer.vocabulary::token)
        assertEquals(listOf("<s>", "▁film", "s", "</s>"), tokens(null))
        assertEquals(listOf("<s>", "▁film", "s", "</s>", "</s>", "</s>"), tokens(""))
        assertEquals("[<s>, ▁film, s, </s>, </s>, ▁good, </s>]", "${tokens("good")}")
        assertEquals("[<s>, ▁film, </s>, </s>, ▁good, </s>]", "${tokens("good", 6)}")
        assertEquals("[<s>, </s>, </s>, </s>]", "${tokens("good", 4)}")
        assertThrows(IllegalArgumentException::class.java) { tokens("good", 3) }
        val middle = read(file, Truncation.MIDDLE).encode("good films good", maxLength = 5)
        assertEquals(listOf(0, 5, 6, 5, 2), middle.ids.asList())
    }

    @Test
    fun `what normalisation leaves nothing of has no pieces`() {
        for (text in listOf("", " \t\n\u3000", "\u00ad\u200b", "\u0007")) {
            assertEquals(0, tokenizer.pieces(text).size)
            assertEquals(listOf(0, 2), tokenizer.encode(text, maxLength = 8).ids.asList())
        }
    }

    @Test
    fun `half of a pair of surrogates is the replacement character`() {
        for (text in listOf("a\ud83d", "\ude00a", "go\ud83dod", "\ud83d\ud83d\ude00\ude00")) {
            val expected = text.replace(Regex("\\p{Cs}"), "\ufffd").tokens()
            assertEquals(expected, text.tokens())
        }
        assertEquals("▁😀 a", "😀a".tokens())
    }

    @Test
    fun `100,000 characters without a blank take time and memory in proportion`() {
        val units =
            listOf(
                "a",
                "good",
                "a1b2",
                "日",
                "e\u0301",
                "\u0301",
                "\u00ad",
                "½",
                "x\u200d",
                "👩\u200d",
            ) +
                listOf(
                    "🇩",
                    "क\u094d",
                    "\u1100",
                    "\u0600",
                    "▁",
                    "<s>",
                    "<mask",
                    "\u3000<",
                    " ",
                    "\ud83d",
                )
        for (unit in units) {
            val text = unit.repeat(100_000 / unit.length)
            assertTrue(tokenizer.encode(text, text, 24).size <= 24)
        }
        assertEquals(50_001, tokenizer.pieces("é日".repeat(25_000)).size)
    }

    private fun score(number: String) =
        "[$number]".toByteArray().let { Scores.parse(it, 1, it.size - 1) }

    @Test
    fun `scores are read to the same doubles, whatever digits they have`() {
        val random = Random(3)
        for (round in 0 until 20_000) {
            val near = random.nextDouble(-20.0, 20.0).toFloat().toDouble()
            val numbers =
                listOf(near, Math.nextUp(near), Math.nextDown(near), near * 1e-7, near * 1e9)
            for (number in numbers) assertEquals(number, score("$number"), 0.0)
            val digits = "${random.nextInt(30)}.${random.nextLong(1L shl 50)}"
            assertEquals(digits.toDouble(), score(digits), 0.0)
        }
        for (power in -60..60) {
            val number = Math.scalb(1.0, power)
            for (next in listOf(number, Math.nextUp(number), Math.nextDown(number))) {
                assertEquals(-next, score("${-next}"), 0.0)
                val whole = next.toBigDecimal().toPlainString()
                assertEquals(next, score(whole), 0.0)
            }
        }
        for (number in listOf("0", "-1", "3.", "-0.0", "-1e-3", "7.498734951019287e0")) {
            assertEquals(number.toDouble(), score(number), 0.0)
        }
        for (wrong in listOf("", "NaN", "-Infinity", "1e999", "\"1\"", "1.1.12345678901", "null")) {
            assertThrows(NumberFormatException::class.java) { score(wrong) }
        }
    }

    private fun refused(content: String, vararg words: String) {
        val error = assertThrows(BundleException::class.java) { read(content) }
        assertEquals(BundleFault.MALFORMED, error.fault)
        for (word in words) assertTrue("$word in ${error.message}", word in error.message.orEmpty())
    }

    @Test
    fun `a file that cannot be right is refused`() {
        val score = Regex("\\[\"▁film\",([-.\\d]+)]").find(file)!!
        val edits =
            listOf(
                score.value to "[\"▁film\", NaN]" to "score",
                score.value to "[\"▁film\", 1e999]" to "score",
                score.value to "[\"▁film\", \"1\"]" to "score",
                score.value to "[\"▁film\"]" to "vocab",
                score.value to "[1, 2]" to "vocab",
                score.value to "\"▁film\"" to "vocab",
                score.value to "[\"▁good\", -1.0]" to "'▁good' on 6 and 7",
                score.value to "[\"▁film\", -1.0]]" to "received",
                "[\"<pad>\",0.0]" to "[\"<pat>\",0.0]" to "without [<pad>]",
                "\"unk_id\":3" to "\"unk_id\":2" to "model",
                "\"unk_id\":3" to "\"unk_id\":null" to "model",
                "\"byte_fallback\":false" to "\"byte_fallback\":true" to "model",
                "\"Unigram\"" to "\"BPE\"" to "model",
                "\"Precompiled\"" to "\"NFKC\"" to "normalizer",
                "\"always\"" to "\"first\"" to "pre_tokenizer",
                "\"rstrip\":false" to "\"rstrip\":true" to "added_tokens",
                "\"id\":0,\"content\":\"<s>\"" to "\"id\":1,\"content\":\"<s>\"" to "added_tokens",
                "\"content\":\"<s>\"" to "\"content\":\"<t>\"" to "added_tokens",
                "\"content\":\"<s>\"" to "\"content\":\"\"" to "added_tokens",
                "\"content\":\"<s>\"" to "\"content\":1.5e" to "tokenizer.json",
                "\"lstrip\":true" to "\"lstrip\":\"yes\"" to "tokenizer.json",
                "\"vocab\"" to "\"pieces\"" to "vocab",
                "\"precompiled_charsmap\"" to "\"table\"" to "charsmap",
                table to table.dropLast(99) + "!" to "base64",
                table to "" to "precompiled_charsmap",
                table to "AAA=" to "precompiled_charsmap",
                table to "/////w==" to "precompiled_charsmap",
            )
        for ((edit, word) in edits) {
            assertTrue("$edit", edit.first in file)
            refused(file.replaceFirst(edit.first, edit.second), word)
        }
        for (content in
            listOf(
                "",
                "[1]",
                file.take(file.length / 2),
                file.dropLast(1),
                "[".repeat(9999),
            )) refused(content)
        refused("[".repeat(99_999) + file)
        val latin = file.toByteArray(Charsets.UTF_16)
        assertThrows(BundleException::class.java) { UnigramFile.read(latin, record()) }
    }

    @Test
    fun `pieces may be escaped, scores in any order and texts on lines of their own`() {
        val other =
            file
                .replace("\"▁film\"", "\"\\u2581f\\u0069lm\"")
                .replace("[\"TM\",", "[\"\\\\\\\"\",")
                .replace(",\"", " ,\r\n\t\"")
        val tokenizer = read(other)
        assertEquals(listOf(5, 6), tokenizer.pieces("good film").ids.asList())
        assertEquals("\\\"", tokenizer.pieces("\\\"").ids.last().let(tokenizer.vocabulary::token))
    }

    @Test
    fun `a damaged table gives pieces of some kind and no crash`() {
        val random = Random(5)
        val content = Base64.getDecoder().decode(table)
        val texts = Resources.lines("unigram.jsonl").map { it.getValue("text").string() }.take(99)
        for (round in 0 until 1_000) {
            val damaged =
                content.copyOf(if (round % 9 == 0) random.nextInt(content.size) else content.size)
            repeat(1 shl random.nextInt(9)) {
                if (damaged.isNotEmpty()) {
                    damaged[random.nextInt(damaged.size)] = random.nextInt().toByte()
                }
            }
            try {
                val charsMap = CharsMap(damaged)
                for (text in texts.shuffled(random).take(9)) {
                    val letters = charsMap.normalize(text, 0, text.length)
                    assertEquals(letters.text.length, letters.places.size)
                }
            } catch (error: BundleException) {
                assertEquals(BundleFault.MALFORMED, error.fault)
            }
        }
    }

    @Test
    fun `a damaged file is refused or gives pieces of some kind`() {
        val random = Random(7)
        val texts = Resources.lines("unigram.jsonl").map { it.getValue("text").string() }.take(99)
        var numRefused = 0
        for (round in 0 until 600) {
            val damaged = StringBuilder(file)
            repeat(1 + random.nextInt(3)) {
                val place = random.nextInt(damaged.length)
                val letter = "\"[]{},:.-09eaZ\\ \u2581é"[random.nextInt(18)]
                when (random.nextInt(3)) {
                    0 -> damaged.deleteAt(place)
                    1 -> damaged.insert(place, letter)
                    else -> damaged[place] = letter
                }
            }
            try {
                val tokenizer = read("$damaged")
                for (text in texts.shuffled(random).take(5)) {
                    val pieces = tokenizer.pieces(text)
                    assertTrue(pieces.starts.indices.all { pieces.ends[it] <= text.length })
                }
            } catch (error: BundleException) {
                assertEquals(BundleFault.MALFORMED, error.fault)
                numRefused++
            }
        }
        assertTrue("$numRefused", numRefused in 60..540)
    }
}
