package io.github.tfdistill.demo

import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.text.EditedToys
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.double
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class SearchActivityTest : ScreenTest() {
    private val card = "bundles/vectors-float32/search/index.json"

    private class Search(val text: String, val rows: List<List<String>>, val score: Double)

    /** What Python found. */
    private val searches =
        Json.parseToJsonElement(String(Toys.open("search.json").readBytes())).jsonArray.map {
            val matches = it.jsonObject.getValue("matches").jsonArray.map { row -> row.jsonObject }
            val scores = matches.map { row -> row.getValue("score").jsonPrimitive.double }
            val texts =
                listOf("text", "answer").map { key ->
                    matches.map { row -> row.getValue(key).jsonPrimitive.content }
                }
            Search(
                it.jsonObject.getValue("text").jsonPrimitive.content,
                matches.indices.map { at ->
                    listOf(texts[0][at], texts[1][at], "Score %.4f".format(scores[at]))
                },
                scores.first(),
            )
        }

    private fun start(source: FileSource = Toys) =
        Robolectric.buildActivity(SearchActivity::class.java).also {
            begin(source)
            it.setup()
            worker.runAll()
        }

    private fun SearchActivity.ask(question: String) {
        enter(R.id.first, question)
        press(R.id.run)
    }

    private fun SearchActivity.rows(): List<List<String>> {
        val rows = find<LinearLayout>(R.id.matches)
        return (0 until rows.childCount).map { at ->
            listOf(R.id.text, R.id.reply, R.id.score).map {
                rows.getChildAt(at).findViewById<TextView>(it)?.text.toString()
            }
        }
    }

    @Test
    fun `the nearest texts stand there with answers, scores and times, as Python found them`() {
        val screen = start().get()
        assertEquals("vectors-float32", screen.find<Spinner>(R.id.bundles).selectedItem)
        val search = searches.first { it.score > 0.95 }
        screen.ask(search.text)
        assertEquals("The nearest of 60 texts:", screen.shown(R.id.answer))
        assertEquals(search.rows, screen.rows())
        val details = screen.shown(R.id.details)
        assertTrue(
            details,
            Regex("Search [\\d.]+ ms over 60 texts\nTokenizer.*").find(details) != null,
        )
        screen.ask(searches[1].text)
        assertEquals(1, models.openedOn.size) // it stays open
    }

    @Test
    fun `what is no nearer than unrelated texts is said to be no answer, and shown`() {
        val screen = start().get()
        val search = searches.first { it.score < 0.95 }
        screen.ask(search.text)
        val said = screen.shown(R.id.answer)
        val best = "%.2f".format(search.score)
        assertTrue(said, said.startsWith("No answer: the best score is $best, and unrelated"))
        assertEquals(search.rows, screen.rows())
        val without = EditedToys(card) { it.replace("\"threshold\": 0.95", "\"threshold\": null") }
        start(without).get().let {
            it.ask(search.text)
            assertEquals("The nearest of 60 texts:", it.shown(R.id.answer))
        }
    }

    @Test
    fun `without an index the screen says how to make one`() {
        val none = Regex("\"search\": \\[[^]]*]")
        val edited = EditedToys("bundles/index.json") { it.replace(none, "\"search\": []") }
        val screen = start(edited).get()
        assertTrue("tfdistill index" in screen.shown(R.id.answer))
        assertEquals(View.GONE, screen.find<View>(R.id.form).visibility)
    }

    @Test
    fun `an index of another model is named, and an empty question is none`() {
        val other =
            EditedToys(card) {
                it.replace(Regex("(\"model.tflite\",\\s+\"sha256\": \").{8}"), "$100000000")
            }
        val screen = start(other).get()
        screen.ask(searches[0].text)
        val said = screen.shown(R.id.answer)
        assertTrue(said, "do not fit one another" in said && "model of the index" in said)
        screen.ask(" ")
        assertEquals("Enter a text first.", screen.shown(R.id.answer))
        assertEquals(0, screen.rows().size)
    }

    @Test
    fun `a screen that is turned keeps what was found, and memory that is wanted is given back`() {
        val controller = start()
        controller.get().ask(searches[0].text)
        val before = controller.get().rows()
        controller.recreate()
        worker.runAll()
        assertEquals(before, controller.get().rows())
        application.onTrimMemory(android.content.ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN)
        worker.runAll()
        assertEquals(0, models.open)
        controller.get().ask(searches[0].text)
        assertEquals(before, controller.get().rows())
    }

    @Test
    fun `an error of the runtime is said, and stopping drops the question`() {
        val screen = start().get()
        screen.ask("nobody knows this text")
        assertTrue("those of a golden example" in screen.shown(R.id.answer))
        screen.enter(R.id.first, searches[0].text)
        screen.find<Button>(R.id.run).performClick()
        assertEquals("Running…", screen.shown(R.id.answer))
        screen.press(R.id.stop)
        assertEquals(0, screen.rows().size)
    }
}
