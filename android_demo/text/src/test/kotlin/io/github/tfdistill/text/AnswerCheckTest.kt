package io.github.tfdistill.text

import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class AnswerCheckTest {
    private fun check(name: String, change: (Float) -> Float): List<LengthAnswers> {
        val bundle = Resources.bundles.open(name)
        val golden = GoldenExamples.read(bundle, Resources)
        return AnswerCheck(bundle, golden).check(Replay(bundle, Resources, change))
    }

    private val names = listOf("pairs-float32", "spans-float32", "tags-float32")

    @Test
    fun `the same answers have no error, whatever stands at the padding`() {
        for (name in names) {
            val rows = check(name) { it }
            assertTrue(name, rows.isNotEmpty() && rows.all { it.sequenceLength in listOf(16, 24) })
            for (row in rows) {
                assertEquals(0.0, row.maxAbsError, 0.0)
                assertNull(row.sqnrDb)
                assertEquals(1.0, row.argmaxAgreement)
            }
        }
    }

    @Test
    fun `answers that are one percent larger have that error, and the same best`() {
        for (name in names) {
            for (row in check(name) { it * 1.01f }) {
                assertEquals(40.0, row.sqnrDb!!, 0.01) // 20 log10(1 / 0.01); floats of 24 bits
                assertEquals(1.0, row.argmaxAgreement)
                assertTrue(row.maxAbsError > 0)
            }
        }
    }

    @Test
    fun `answers upside down agree nowhere`() {
        for (name in names) {
            for (row in check(name) { -it }) assertEquals(0.0, row.argmaxAgreement)
        }
    }

    @Test
    fun `words without a tag say nothing of the labels, and their numbers count`() {
        val bundle = Resources.bundles.open("tags-float32")
        val golden = GoldenExamples.read(bundle, Resources).examples
        val untagged = GoldenExamples(golden.map { it.copy(firstPieces = emptyList()) })
        val rows = AnswerCheck(bundle, untagged).check(Replay(bundle, Resources) { -it })
        assertTrue(rows.all { it.argmaxAgreement == null && it.maxAbsError > 0 })
    }

    @Test
    fun `an answer that is no number is refused`() {
        assertThrows(BundleException::class.java) { check("pairs-float32") { Float.NaN } }
    }

    @Test
    fun `an example that is too long is cut, and one that is short serves every length`() {
        val long =
            GoldenExamples(listOf(GoldenExample(null, null, (1..30).toList(), List(30) { 0 })))
        assertEquals(
            (1..15).toList() + 30,
            long.forLength(listOf(16, 24), 16).single().ids.asList(),
        )
        val short = GoldenExamples(listOf(GoldenExample(null, null, listOf(1, 2), listOf(0, 0))))
        assertEquals(listOf(1, 2), short.forLength(listOf(16, 24), 24).single().ids.asList())
    }
}
