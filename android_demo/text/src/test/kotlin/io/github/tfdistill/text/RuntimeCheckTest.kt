package io.github.tfdistill.text

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

/** Whether a runtime computes a file as the runtime of its export, asked when it is opened. */
class RuntimeCheckTest {
    private val names = listOf("pairs-float32", "spans-float32", "tags-float32", "vectors-float32")
    private var inferences = 0
    private var closed = 0

    private fun open(
        name: String,
        runtime: String?,
        source: FileSource = Toys,
        change: (Float) -> Float = { it },
    ): Predictor {
        val replay = Replay(Bundles(Toys).open(name), Toys, change)
        val runner =
            object : ModelRunner by replay {
                override val runtime = runtime

                override fun run(signature: String, inputs: Map<String, IntArray>) =
                    replay.run(signature, inputs).also { inferences++ }

                override fun close() {
                    closed++
                }
            }
        return Predictor.open(source, name, { runner })
    }

    @Test
    fun `a runtime that computes a file otherwise is refused each time, with its name`() {
        for (name in names) {
            for (change in listOf<(Float) -> Float>({ -it }, { it * 1.05f }, { Float.NaN })) {
                closed = 0
                val error =
                    assertThrows(BundleException::class.java) {
                        open(name, "Runtime 2.14", change = change)
                    }
                assertEquals(BundleFault.UNSUITABLE, error.fault)
                if (!change(1f).isNaN()) {
                    assertTrue(error.message, "by Runtime 2.14: expected" in "${error.message}")
                }
                assertEquals(1, closed)
            }
        }
    }

    @Test
    fun `a file is compared once for each runtime, by one inference`() {
        for (name in names) {
            inferences = 0
            for (expected in listOf(1, 1)) {
                open(name, "Runtime 1").close()
                assertEquals(expected, inferences)
            }
            open(name, "Runtime 2") { it * 1.001f }.close() // as kernels differ
            assertEquals(2, inferences)
        }
    }

    @Test
    fun `a runner without a name, and a file without golden outputs, are not compared`() {
        open("pairs-float32", null) { -it }.close()
        val path = "bundles/pairs-float32/model.json"
        val without =
            EditedToys(path) {
                it.replace(Regex("\"golden_file\": \\{[^}]*}"), "\"golden_file\": null")
            }
        open("pairs-float32", "Runtime 3", without) { -it }.close()
        assertEquals(0, inferences)
    }
}
