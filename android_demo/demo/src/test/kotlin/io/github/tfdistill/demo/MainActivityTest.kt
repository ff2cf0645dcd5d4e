package io.github.tfdistill.demo

import android.content.ComponentCallbacks2
import android.text.Spanned
import android.text.style.StyleSpan
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.benchmark.ModelOpener
import io.github.tfdistill.text.EditedToys
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import java.io.FileNotFoundException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class MainActivityTest : ScreenTest() {
    private fun start(source: FileSource = Toys, opener: ModelOpener = models) =
        Robolectric.buildActivity(MainActivity::class.java).also {
            begin(source, opener)
            it.setup()
        }

    private fun MainActivity.select(at: Int) {
        find<Spinner>(R.id.bundles).setSelection(at)
        worker.runAll()
    }

    private fun MainActivity.answer(first: String, second: String = ""): String {
        enter(R.id.first, first)
        enter(R.id.second, second)
        press(R.id.run)
        return shown(R.id.answer)
    }

    @Test
    fun `a pair is classified as the golden example says`() {
        val screen = start().get()
        assertFalse(screen.find<Button>(R.id.run).isEnabled)
        worker.runAll()
        assertEquals(View.VISIBLE, screen.find<View>(R.id.second).visibility)
        val golden = Golden("pairs-float32").examples.first { it.pair != null }
        val answer = screen.answer(golden.text, golden.pair.orEmpty())
        val best = listOf("no", "yes", "maybe")[golden.outputs.indexOf(golden.outputs.max())]
        assertTrue(answer, answer.startsWith("$best: %.1f %%".format(100 * golden.outputs.max())))
        val rows = screen.find<LinearLayout>(R.id.bars)
        val bars = (0..2).map { rows.getChildAt(it).findViewById<ProgressBar>(R.id.bar)!!.progress }
        assertEquals(golden.outputs.sortedDescending().map { (1000 * it).toInt() }, bars)
        assertTrue(screen.shown(R.id.tokens).startsWith("Tokens: [CLS] "))
        assertTrue(screen.shown(R.id.details), "padded to 24" in screen.shown(R.id.details))
        assertEquals(1, models.runs)
    }

    @Test
    fun `without a bundle the screen says what to do`() {
        val screen = start(FileSource { throw FileNotFoundException(it) }).get()
        worker.runAll()
        assertEquals(View.GONE, screen.find<View>(R.id.form).visibility)
        assertTrue("tfdistill export" in screen.shown(R.id.fault))
    }

    @Test
    @Config(qualifiers = "zh-rCN")
    fun `a tampered file is said to be one, in Chinese`() {
        val broken = FileSource {
            val content = Toys.open(it).readBytes()
            if (it.endsWith("vocab.txt")) content[0]++
            content.inputStream()
        }
        val screen = start(broken).get()
        worker.runAll()
        assertTrue(screen.shown(R.id.fault), screen.shown(R.id.fault).startsWith("无法使用此模型"))
        assertEquals(0, models.open)
    }

    @Test
    fun `a thousand taps are one inference`() {
        val screen = start().get()
        worker.runAll()
        screen.enter(R.id.first, Golden("pairs-float32").examples[0].text)
        repeat(1000) { screen.find<Button>(R.id.run).performClick() }
        assertEquals(1, worker.waiting)
        worker.runAll()
        assertEquals(1, models.runs)
    }

    @Test
    fun `a screen that is turned shows what was asked for before`() {
        val controller = start()
        worker.runAll()
        val golden = Golden("pairs-float32").examples[0]
        controller.get().enter(R.id.first, golden.text)
        controller.get().find<Button>(R.id.run).performClick()
        controller.recreate()
        worker.runAll()
        val screen = controller.get()
        assertEquals(golden.text, screen.shown(R.id.first))
        assertTrue("[CLS]" in screen.shown(R.id.tokens))
        assertEquals(1, models.runs)
        assertEquals(1, models.open)
    }

    @Test
    fun `a model that fails is reported and the screen goes on`() {
        val screen = start().get()
        worker.runAll()
        val message = screen.answer("who knows this text")
        assertTrue(message, "those of a golden example" in message)
        val golden = Golden("pairs-float32").examples[0]
        screen.answer(golden.text, golden.pair.orEmpty())
        assertTrue("[CLS]" in screen.shown(R.id.tokens))
    }

    @Test
    fun `questions and words have screens of their own`() {
        val screen = start().get()
        worker.runAll()
        screen.select(1)
        assertEquals("Question", screen.find<EditText>(R.id.first).hint.toString())
        val question = Golden("spans-float32").questions.first { it.answer.isNotEmpty() }
        assertTrue(screen.answer(question.question, question.context).startsWith(question.answer))
        val none = Golden("spans-float32").questions.first { it.answer.isEmpty() }
        val message = screen.answer(none.question, none.context)
        assertTrue(message, message.startsWith("The text does not answer"))
        screen.select(2)
        assertEquals(View.GONE, screen.find<View>(R.id.second).visibility)
        assertEquals(1, models.open)
    }

    @Test
    fun `a vector is said to be one, and where it is of use`() {
        val screen = start().get()
        worker.runAll()
        screen.select(3)
        val said = screen.answer(Golden("vectors-float32").examples[0].text)
        assertTrue(said, said.startsWith("A vector of 16 numbers. \"Find answers\" in the menu"))
        assertEquals(View.GONE, screen.find<View>(R.id.second).visibility)
    }

    @Test
    fun `a newer text takes the place of the older`() {
        val screen = start().get()
        worker.runAll()
        val (first, second) = Golden("pairs-float32").examples.filter { it.pair == null }
        screen.enter(R.id.first, first.text)
        screen.find<Button>(R.id.run).performClick()
        screen.answer(second.text)
        assertEquals(1, models.runs)
        assertTrue("%.1f".format(100 * second.outputs.max()) in screen.shown(R.id.answer))
    }

    @Test
    fun `a question with many windows stops between two of them`() {
        val screen = start().get()
        worker.runAll()
        screen.select(1)
        val question = Golden("spans-float32").questions.first { it.context.length > 80 }
        models.during = { screen.find<Button>(R.id.stop).performClick() }
        assertEquals("", screen.answer(question.question, question.context))
        assertEquals(1, models.runs)
        models.during = {}
        assertTrue(screen.answer(question.question, question.context).isNotEmpty())
        assertTrue("windows" in screen.shown(R.id.details))
    }

    @Test
    fun `an empty text is asked for and not answered`() {
        val screen = start().get()
        worker.runAll()
        assertEquals("Enter a text first.", screen.answer(" \n"))
        assertEquals(0, models.runs)
    }

    @Test
    fun `a long text with half a surrogate pair is cut and shown`() {
        val screen = start().get()
        worker.runAll()
        val message = screen.answer("not \uD83D when ".repeat(7000))
        assertTrue(message, "those of a golden example" in message) // it came as far as the model
        assertEquals(1, models.runs)
    }

    @Test
    fun `whatever is wrong with a bundle, the screen says what and offers the others`() {
        val card = "bundles/pairs-float32/model.json"
        fun edited(old: String, new: String) = EditedToys(card) { it.replace(old, new) }
        val later = "The model was exported by a later version"
        val unfit = "The files of the model do not fit one another"
        val cases =
            listOf(
                edited("\"format_version\": 1", "\"format_version\": 2") to later,
                edited("\"maybe\"", "\"perhaps\"") to unfit,
                edited("\"softmax\": true", "\"softmax\": 1") to
                    "A file of the model cannot be read",
                edited("\"vocab.txt\"", "\"other.txt\"") to "There is no model in this app, or",
            )
        for ((source, sentence) in cases) {
            val screen = start(source).get()
            worker.runAll()
            assertTrue(screen.shown(R.id.fault), sentence in screen.shown(R.id.fault))
            screen.select(2)
            assertEquals(View.VISIBLE, screen.find<View>(R.id.form).visibility)
            assertEquals(View.GONE, screen.find<View>(R.id.fault).visibility)
        }
    }

    @Test
    fun `a model without the signature of its manifest is refused`() {
        val opener = ModelOpener { bundle, _, _ ->
            bundle.checkModel(emptyMap())
            error("not reached")
        }
        val screen = start(opener = opener).get()
        worker.runAll()
        assertTrue("do not fit one another" in screen.shown(R.id.fault))
        assertTrue("signature of model.tflite" in screen.shown(R.id.fault))
    }

    @Test
    fun `a library that is missing is said to be`() {
        val opener = ModelOpener { _, _, _ -> throw UnsatisfiedLinkError("no tensorflowlite_jni") }
        val screen = start(opener = opener).get()
        worker.runAll()
        assertTrue("no tensorflowlite_jni" in screen.shown(R.id.fault))
    }

    @Test
    fun `the model is closed for want of memory and opened when it is needed`() {
        val screen = start().get()
        worker.runAll()
        application.onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN)
        worker.runAll()
        assertEquals(0, models.open)
        val golden = Golden("pairs-float32").examples[0]
        screen.answer(golden.text, golden.pair.orEmpty())
        assertTrue("[CLS]" in screen.shown(R.id.tokens))
        assertEquals(1, models.open)
    }

    @Test
    fun `after Android ended the app the chosen model is open again`() {
        val controller = start()
        worker.runAll()
        controller.get().select(2)
        val saved = android.os.Bundle()
        controller.saveInstanceState(saved)
        val screen = Robolectric.buildActivity(MainActivity::class.java)
        begin()
        screen.setup(saved)
        worker.runAll()
        assertEquals("tags-float32", screen.get().find<Spinner>(R.id.bundles).selectedItem)
    }

    @Test
    fun `a word that is not in the vocabulary stands out and is counted`() {
        val screen = start().get()
        worker.runAll()
        screen.answer("john saw naiv naiv 한글 saw")
        val shown = screen.find<TextView>(R.id.tokens).text as Spanned
        val (span) = shown.getSpans(0, shown.length, StyleSpan::class.java)
        assertEquals(
            "[UNK]",
            "${shown.subSequence(shown.getSpanStart(span), shown.getSpanEnd(span))}",
        )
        assertTrue("[UNK], not in the vocabulary: 1" in screen.shown(R.id.details))
    }

    @Test
    fun `the entities of a text are marked in it`() {
        val screen = start().get()
        worker.runAll()
        screen.select(2)
        val text = "not was mary was and Élève story it good when"
        val marked = screen.answer(text)
        assertTrue(marked, marked.startsWith("[not|PER: ") && marked.endsWith("] good when"))
        val mark = Regex("\\[([^|\\[]+)\\|PER: \\d+\\.\\d %]")
        assertEquals(text, marked.replace(mark) { it.groupValues[1] })
        assertEquals(8, mark.findAll(marked).count())
    }
}
