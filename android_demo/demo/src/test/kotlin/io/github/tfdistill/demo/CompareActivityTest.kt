package io.github.tfdistill.demo

import android.widget.EditText
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

/** The toys, and the first of them once more under another name. */
object TwoPairs : FileSource {
    private val ENTRY =
        Regex("\"pairs-float32\": (\\{.*?\\}.*?\\}.*?\\})", RegexOption.DOT_MATCHES_ALL)

    override fun open(path: String) =
        if (path != "bundles/index.json") Toys.open(path)
        else
            String(Toys.open(path).readBytes())
                .replace(ENTRY) { "${it.value}, \"pairs-two\": ${it.groupValues[1]}" }
                .byteInputStream()
}

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class CompareActivityTest : ScreenTest() {
    private val golden = Golden("pairs-float32").examples.first { it.pair != null }

    private fun start(source: FileSource = TwoPairs) =
        Robolectric.buildActivity(CompareActivity::class.java).also {
            begin(source)
            it.setup()
            worker.runAll()
        }

    private fun CompareActivity.run(left: String, right: String) {
        for ((id, name) in listOf(R.id.left to left, R.id.right to right)) {
            val spinner = find<Spinner>(id)
            spinner.setSelection(
                (0 until spinner.count).first { spinner.getItemAtPosition(it) == name }
            )
        }
        enter(R.id.first, golden.text)
        enter(R.id.second, golden.pair)
        press(R.id.run)
    }

    private fun CompareActivity.table(): List<List<String>> {
        val table = find<LinearLayout>(R.id.table)
        return (0 until table.childCount).map { row ->
            val cells = table.getChildAt(row) as LinearLayout
            (0..2).map { (cells.getChildAt(it) as TextView).text.toString() }
        }
    }

    @Test
    fun `both models stand side by side with answer, probabilities, size and length`() {
        val screen = start().get()
        screen.run("pairs-float32", "pairs-two")
        val rows = screen.table().associate { it[0] to it.drop(1) }
        assertEquals(listOf("pairs-float32", "pairs-two"), rows["Model"])
        val best = listOf("no", "yes", "maybe")[golden.outputs.indexOf(golden.outputs.max())]
        assertEquals(listOf(best, best), rows["Answer"])
        val percent = "%.1f %%".format(100 * golden.outputs.max())
        assertEquals(listOf(percent, percent), rows[best])
        assertEquals(listOf("33 kB", "33 kB"), rows["File size"])
        assertEquals(listOf("24", "24"), rows["Length in tokens"])
        assertEquals(2 * (1 + 5), models.runs)
        assertEquals(0, models.open)
    }

    @Test
    fun `two different bundles are chosen to begin with`() {
        val screen = start().get()
        val chosen = listOf(R.id.left, R.id.right).map { screen.find<Spinner>(it).selectedItem }
        assertEquals(listOf<Any>("pairs-float32", "pairs-two"), chosen)
    }

    @Test
    fun `a model that fails is reported, and both are closed`() {
        val screen = start().get()
        screen.run("pairs-float32", "spans-float32")
        val message = screen.find<TextView>(R.id.answer).text.toString()
        assertTrue(message, "those of a golden example" in message)
        assertEquals(0, models.open)
        screen.run("pairs-float32", "pairs-float32")
        assertTrue(screen.table().isNotEmpty())
    }

    @Test
    fun `a screen that is turned keeps texts, choice and table`() {
        val controller = start()
        controller.get().run("pairs-two", "pairs-two")
        val before = controller.get().table()
        controller.recreate()
        worker.runAll()
        val screen = controller.get()
        assertEquals(before, screen.table())
        assertEquals("pairs-two", screen.find<Spinner>(R.id.right).selectedItem)
        assertEquals(golden.text, screen.find<EditText>(R.id.first).text.toString())
    }

    @Test
    fun `leaving nothing to compare says what is missing`() {
        val screen = start { throw java.io.FileNotFoundException(it) }.get()
        val message = screen.find<TextView>(R.id.answer).text.toString()
        assertTrue(message, "tfdistill export" in message)
    }
}
