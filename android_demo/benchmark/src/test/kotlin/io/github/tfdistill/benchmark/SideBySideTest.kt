package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.SignatureTensors
import io.github.tfdistill.text.Toys
import java.util.concurrent.CancellationException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Test

class SideBySideTest {
    private val bundle = Bundles(Toys).open("pairs-float32")
    private val turns = ArrayList<String>()
    private var ns = 0L

    /** Answers always the same; the duration of its runs is given. */
    private inner class Model(val name: String, val scores: FloatArray, val ms: Iterator<Int>) :
        ModelRunner {
        override val signatures = emptyMap<String, SignatureTensors>()

        override fun run(
            signature: String,
            inputs: Map<String, IntArray>,
        ): Map<String, FloatArray> {
            turns += name
            ns += 1_000_000L * ms.next()
            return mapOf("scores" to scores)
        }

        override fun close() = Unit
    }

    private val left = Model("left", floatArrayOf(0.7f, 0.2f, 0.1f), iterator(90, 1, 2, 3, 9, 0))
    private val right = Model("right", floatArrayOf(0.1f, 0.3f, 0.6f), iterator(80, 7, 7, 7, 6, 99))

    private fun iterator(vararg ms: Int) = ms.iterator()

    private fun both(isCancelled: () -> Boolean = { false }) =
        SideBySide(listOf(Side(bundle, left), Side(bundle, right)), { ns }, isCancelled)

    @Test
    fun `each side gives its own answer, and the median of its times without the first`() {
        val predictions = both().predict("a film", "", turns = 5)
        val best = predictions.map { (it.outcome as Outcome.Labels).labels.first().label }
        assertEquals(listOf("no", "maybe"), best)
        assertEquals(listOf(2.0, 7.0), predictions.map { it.inferenceMs })
    }

    @Test
    fun `they take turns`() {
        both().predict("a film", "", turns = 2)
        assertEquals(List(3) { listOf("left", "right") }.flatten(), turns)
    }

    @Test
    fun `an answer that is no longer wanted is not computed`() {
        var calls = 0
        assertThrows(CancellationException::class.java) {
            both { ++calls > 3 }.predict("a film", "")
        }
        assertEquals(3, turns.size)
    }
}
