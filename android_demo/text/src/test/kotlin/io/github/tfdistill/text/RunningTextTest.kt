package io.github.tfdistill.text

import kotlinx.serialization.json.JsonObject
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Test

/** Odd running texts, read as on the Python side. */
class RunningTextTest {
    private val lines = Resources.lines("running.jsonl")

    @Test
    fun `odd texts have the words of Python`() {
        val wrong =
            lines.filter {
                val words = WordPlaces.of(it.getValue("text").string())
                words.starts.asList() != it.getValue("starts").ints() ||
                    words.ends.asList() != it.getValue("ends").ints()
            }
        assertEquals(emptyList<JsonObject>(), wrong.take(3))
        assertEquals(2000, lines.size)
    }

    @Test
    fun `halves of surrogates are in no word, and whole pairs are one character`() {
        val words = WordPlaces.of("a\ud83d\ud83d\ude00\ude00\u0301b")
        assertArrayEquals(intArrayOf(0, 2, 5, 6), words.starts)
        assertArrayEquals(intArrayOf(1, 4, 6, 7), words.ends)
    }
}
