package io.github.tfdistill.demo

import android.widget.LinearLayout
import android.widget.TextView
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Entity
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Scored
import io.github.tfdistill.text.Toys
import org.junit.Assert.assertEquals
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** Models with many labels. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class ManyLabelsTest {
    private val application = RuntimeEnvironment.getApplication()

    private fun labels(count: Int) = List(count) { Scored("label $it", 1.0 / count) }

    private fun shown(count: Int): List<String> {
        val rows = LinearLayout(application)
        rows.showLabels(labels(count))
        return (0 until rows.childCount).map { at ->
            val row = rows.getChildAt(at)
            checkNotNull(row as? TextView ?: row.findViewById<TextView>(R.id.label)).text.toString()
        }
    }

    @Test
    fun `a list that is cut says so`() {
        val all = shown(100)
        assertEquals(100 to "label 99: 1.0 %", all.size to all.last())
        val cut = shown(101)
        assertEquals(101, cut.size)
        assertEquals("100 of 101 labels are shown", cut.last())
        assertEquals("label 99: 1.0 %", cut[99])
    }

    @Test
    fun `an answer is said to be sure, with what the promise was not tested on, or not sure`() {
        val outcome = Outcome.Labels(labels(2))
        val prediction = Prediction(outcome, emptyList(), 2, 16, 1, 0.1, 1.0, probability = 0.5)
        fun lines(sure: Boolean?) =
            application.resources.details(prediction.copy(sure = sure)).lines()
        assertEquals("Not sure", lines(false).first())
        assertEquals("Sure (not tested on texts of another kind)", lines(true).first())
        assertEquals(lines(null), lines(true).drop(1))
    }

    @Test
    fun `of several labels those that apply are the answer`() {
        val all = listOf(Scored("fast", 0.9), Scored("loud", 0.51), Scored("calm", 0.5))
        fun said(labels: List<Scored>) =
            application.resources.headline(Outcome.Labels(labels, several = true))
        assertEquals("fast: 90.0 %\nloud: 51.0 %", said(all))
        assertEquals("No label applies.", said(all.drop(2)))
        assertEquals("fast: 90.0 %", application.resources.headline(Outcome.Labels(all)))
    }

    @Test
    fun `entities are marked in their text, and other tags stand behind their words`() {
        fun said(entities: List<Entity>?) =
            application.resources.headline(
                Outcome.Tags("😀 Mary, Oslo", listOf("Mary", ","), listOf("N", "P"), entities)
            )
        val mary = Entity("PER", 3, 7, "Mary", 0.98, true)
        val oslo = Entity("LOC", 9, 13, "Oslo", 0.5, false)
        assertEquals("😀 [Mary|PER: 98.0 % ✓], [Oslo|LOC: 50.0 %]", said(listOf(mary, oslo)))
        assertEquals("😀 Mary, Oslo", said(emptyList()))
        assertEquals("Mary  N\n,  P", said(null))
    }

    @Test
    fun `a table that is cut says so`() {
        val bundle = Bundles(Toys).open("pairs-float32")
        fun names(count: Int): List<String> {
            val outcome = Outcome.Labels(labels(count))
            val answer = Compared(bundle, Prediction(outcome, emptyList(), 2, 16, 1, 0.1, 1.0))
            return application.resources.comparison(listOf(answer, answer)).map { it[0] }
        }
        assertEquals(listOf("label 19", "Model time"), names(20).subList(21, 23))
        val cut = listOf("label 19", "20 of 21 labels are shown", "Model time")
        assertEquals(cut, names(21).subList(21, 24))
    }
}
