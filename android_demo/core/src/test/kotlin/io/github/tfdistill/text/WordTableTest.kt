package io.github.tfdistill.text

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlinx.serialization.json.jsonArray
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

/** A file that starts at the embeddings: this side looks up the rows that Python does. */
class WordTableTest {
    private val source = FileSource { Resources.open("rows/$it") }
    private val whole = Bundles(source).open("rows-float32")
    private val bundle = checkNotNull(whole.forDevice("npu-rows"))
    private val words = checkNotNull(bundle.words)
    private val content = Resources.open("rows/bundles/rows-float32/words.safetensors").readBytes()

    @Test
    fun `the rows of every word are those of Python, bit for bit`() {
        val expected = Resources.json("rows/rows.json").jsonArray.map { it.ints() }
        assertEquals(expected.size, words.numWords)
        val found = words.rows(IntArray(words.numWords) { it }).map { it.toRawBits() }
        assertEquals(expected, found.chunked(words.width))
        val last = words.numWords - 1
        assertEquals(
            expected[last] + expected[0],
            words.rows(intArrayOf(last, 0)).map { it.toRawBits() },
        )
        for (id in listOf(-1, words.numWords)) {
            assertThrows(IllegalArgumentException::class.java) { words.rows(intArrayOf(id)) }
        }
        assertNull(whole.words)
    }

    @Test
    fun `texts are answered through the rows as the file answered`() {
        val golden = GoldenExamples.read(bundle, source)
        val runner = GoldenRunner(bundle, golden)
        val found = AnswerCheck(bundle, golden).parity(runner)
        assertTrue("$found", found.passed && found.numAnswers > 8 && found.sqnrDb == null)
        val predictor = Predictor(bundle, runner)
        for ((text, pair) in golden.texts) predictor.predict(text, pair)
        assertThrows(IllegalArgumentException::class.java) {
            Predictor(bundle, runner).predict("a text that is no golden example")
        }
        val ids =
            object : ModelRunner by runner {
                override fun run(
                    signature: String,
                    inputs: Map<String, IntArray>,
                    rows: Map<String, FloatArray>,
                ) = runner.run(signature, inputs, rows.mapValues { FloatArray(it.value.size) })
            }
        assertThrows(IllegalArgumentException::class.java) {
            AnswerCheck(bundle, golden).parity(ids)
        }
    }

    private fun parsed(header: String, size: Int = header.length, cut: Int = 0): WordTable {
        val old = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).getLong(0).toInt()
        val body = content.copyOfRange(8 + old, content.size)
        val made = ByteBuffer.allocate(8 + header.length + body.size)
        made.order(ByteOrder.LITTLE_ENDIAN).putLong(size.toLong())
        made.put(header.toByteArray()).put(body)
        return WordTable.parse("words", ByteBuffer.wrap(made.array().copyOf(made.capacity() - cut)))
    }

    @Test
    fun `what is no such table is refused`() {
        val size = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).getLong(0).toInt()
        val header = String(content, 8, size)
        assertEquals(words.numWords, parsed(header).numWords)
        val later = header.replace("\"format_version\":\"1\"", "\"format_version\":\"2\"")
        val fault = assertThrows(BundleException::class.java) { parsed(later) }
        assertEquals(BundleFault.NEWER, fault.fault)
        val rows = words.numWords
        val faults =
            listOf<() -> Unit>(
                { parsed(header, cut = 4) },
                { parsed(header, size = Int.MAX_VALUE) },
                { parsed(header, size = 3) },
                { parsed(header.replace("I8", "U8")) },
                { parsed(header.replace("F32", "F16")) },
                { parsed(header.replace("[$rows,", "[${rows + 1},")) },
                { parsed(header.replace("[$rows,", "[2000000000,")) },
                { parsed(header.replace("[$rows,", "[-$rows,")) },
                { parsed(header.replace("\"codes\"", "\"other\"")) },
                { parsed(header.replace("data_offsets\":[0", "data_offsets\":[-8")) },
                { WordTable.parse("words", ByteBuffer.allocate(5)) },
            )
        for ((at, fails) in faults.withIndex()) {
            val error = assertThrows("$at", BundleException::class.java) { fails() }
            assertEquals("$at", BundleFault.MALFORMED, error.fault)
        }
        val scales = content.copyOf()
        for (at in 8 + size until scales.size) scales[at] = -1 // NaN, wherever they are
        assertThrows(BundleException::class.java) {
            WordTable.parse("words", ByteBuffer.wrap(scales))
        }
    }

    @Test
    fun `a table that was changed or is missing is found when its bundle is opened`() {
        for (damage in listOf(ByteArray(3), null)) {
            val damaged = FileSource {
                if (!it.endsWith("words.safetensors")) source.open(it)
                else damage?.inputStream() ?: throw java.io.FileNotFoundException(it)
            }
            val fault =
                assertThrows(BundleException::class.java) { Bundles(damaged).open("rows-float32") }
            val expected = if (damage == null) BundleFault.MISSING else BundleFault.TAMPERED
            assertEquals(expected, fault.fault)
        }
    }
}
