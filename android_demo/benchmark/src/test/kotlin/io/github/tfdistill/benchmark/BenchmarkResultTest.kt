package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Toys
import java.io.ByteArrayOutputStream
import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Test

class BenchmarkResultTest {
    private val bundle = Bundles(Toys).open("pairs-float32")

    private fun result(): BenchmarkResult {
        val card = bundle.manifest
        val conditions =
            Conditions("2026-01-02T03:04:05+00:00", 1, 80.0, 31.5, true, listOf(1800.0))
        val file = "${bundle.name}/${card.model.file}"
        val request = BenchmarkRequest(bundle.name, listOf(16), listOf(2))
        return BenchmarkResult(
            formatVersion = BenchmarkResult.FORMAT_VERSION,
            kind = BenchmarkResult.PHONE,
            backend = BenchmarkResult.BACKEND,
            created = "2026-01-02T03:04:06+00:00",
            tfdistillVersion = card.tfdistillVersion,
            command = listOf("io.github.tfdistill.demo"),
            settings = request.toSettings(listOf(16)),
            device =
                Device(
                    "Maker Phone",
                    "maker/phone:15",
                    "Chip",
                    "arm64-v8a",
                    "Android 15 (API 35)",
                    "Linux 6.1",
                    8,
                    listOf(1800.0, 2800.5),
                    8_000_000_000,
                ),
            runtime =
                Runtime("io.github.tfdistill.demo", "1.0", "release", mapOf("litert" to null)),
            before = conditions,
            after = conditions.copy(thermalStatus = null),
            models =
                listOf(
                    ModelFile(
                        bundle.name,
                        file,
                        card.model.sha256,
                        card.model.sizeBytes,
                        card.quantization,
                        card,
                        Inputs("golden", 12),
                    )
                ),
            measurements =
                listOf(
                    Measurement(
                        bundle.name,
                        16,
                        2,
                        BenchmarkResult.CPU,
                        "len16",
                        0,
                        "2026-01-02T03:04:05+00:00",
                        listOf(3.5),
                        listOf(1.25, 1.5, 1.0e-4),
                        10,
                        8.0,
                        9.0,
                        1L shl 33,
                        5,
                        conditions,
                        conditions,
                        "the device throttled",
                    ),
                    Measurement(bundle.name, 24, 1, BenchmarkResult.GPU, repetition = 1),
                ),
            texts = listOf(TextMeasurement(bundle.name, 2, "xnnpack", 0, listOf(0.1), listOf(1.5))),
            failures = listOf(Failure("gpu", "no such \"accelerator\" \ud83d\ude00 \u2028")),
            notes = listOf("a note"),
        )
    }

    @Test
    fun `a result is read as it was written`() {
        val stream = ByteArrayOutputStream()
        result().write(stream)
        val content = stream.toString("UTF-8")
        assertEquals(result(), BenchmarkResult.read(content))
        assertFalse("summary" in content)
        // What the Python side reads with its own schema: a test there looks at it.
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(it, "benchmark.json").writeText(content) }
    }

    @Test
    fun `a number that is none cannot be written`() {
        val broken =
            result()
                .copy(
                    texts =
                        listOf(TextMeasurement("a", 1, "gpu", 0, listOf(Double.NaN), emptyList()))
                )
        assertThrows(IllegalArgumentException::class.java) { broken.write(ByteArrayOutputStream()) }
    }

    @Test
    fun `the state says every value`() {
        val expected = """{"format_version":1,"state":"done","finished":3,"of":3,"error":null}"""
        val json = BenchmarkState(1, BenchmarkState.DONE, 3, 3, null).toJson()
        assertEquals(expected, json.filterNot { it.isWhitespace() })
    }
}
