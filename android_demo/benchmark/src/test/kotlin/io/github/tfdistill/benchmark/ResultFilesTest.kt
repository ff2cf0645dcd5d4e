package io.github.tfdistill.benchmark

import java.io.File
import java.io.IOException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder

class ResultFilesTest {
    @get:Rule val temporary = TemporaryFolder()
    private val folder by lazy { File(temporary.root, "deep/results") }
    private val files by lazy { ResultFiles(folder, "run") }

    private fun result(ms: Double) =
        BenchmarkResult(
            formatVersion = BenchmarkResult.FORMAT_VERSION,
            kind = BenchmarkResult.PHONE,
            backend = BenchmarkResult.BACKEND,
            created = "now",
            tfdistillVersion = "0",
            device = Device("d"),
            runtime = Runtime("r"),
            models = emptyList(),
            texts = listOf(TextMeasurement("m", 1, "xnnpack", 0, listOf(ms), listOf(ms))),
        )

    private fun names() = folder.list()?.toSet()

    @Test
    fun `what cannot be written leaves what was there before, and no part of itself`() {
        files.write(result(1.5))
        assertThrows(IllegalArgumentException::class.java) { files.write(result(Double.NaN)) }
        assertEquals(setOf("run.json"), names())
        assertEquals(result(1.5), files.result())
    }

    @Test
    fun `a file that is in the way is said to be`() {
        File(folder, "run.json/x").mkdirs()
        val error = assertThrows(IOException::class.java) { files.write(result(1.5)) }
        assertEquals("cannot write ${File(folder, "run.json")}", error.message)
        assertEquals(setOf("run.json"), names())
    }

    @Test
    fun `what is not there, damaged or of another version is none`() {
        assertNull(files.state())
        assertNull(files.result())
        val state = BenchmarkState(1, BenchmarkState.RUNNING, 1, 2, null)
        files.write(state)
        assertEquals(state, files.state())
        for (content in listOf("", "{", "[]", state.toJson().replace("1,", "9,"))) {
            File(folder, "run.state.json").writeText(content)
            assertNull(content, files.state())
        }
    }
}
