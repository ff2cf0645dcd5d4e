package io.github.tfdistill.demo

import android.app.Activity
import android.content.Intent
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.demo.core.FileSource
import java.io.FileNotFoundException
import java.util.concurrent.AbstractExecutorService
import java.util.concurrent.TimeUnit
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config

/** Runs jobs when a test says so. */
class Later : AbstractExecutorService() {
    private val jobs = ArrayDeque<Runnable>()

    override fun execute(job: Runnable) {
        jobs.add(job)
    }

    /** Runs all that waits, and what that starts on the main thread. */
    fun runAll() {
        shadowOf(android.os.Looper.getMainLooper()).idle()
        while (jobs.isNotEmpty()) {
            jobs.removeFirst().run()
            shadowOf(android.os.Looper.getMainLooper()).idle()
        }
    }

    override fun shutdown() = Unit

    override fun shutdownNow(): List<Runnable> = emptyList()

    override fun isShutdown() = false

    override fun isTerminated() = false

    override fun awaitTermination(time: Long, unit: TimeUnit) = true
}

/** A view that has to be there. */
fun <T : View> Activity.find(id: Int): T = checkNotNull(findViewById<T>(id))

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class MainActivityTest {
    private val worker = Later()
    private val models = FakeModels()

    private fun start(source: FileSource = Toys) =
        Robolectric.buildActivity(MainActivity::class.java).also {
            val application = RuntimeEnvironment.getApplication() as DemoApplication
            application.services = Services(source, models, worker)
            it.setup()
        }

    private fun MainActivity.text(id: Int) = find<TextView>(id).text.toString()

    private fun MainActivity.select(at: Int) {
        find<Spinner>(R.id.bundles).setSelection(at)
        worker.runAll()
    }

    private fun MainActivity.answer(first: String, second: String = ""): String {
        find<EditText>(R.id.first).setText(first)
        find<EditText>(R.id.second).setText(second)
        find<Button>(R.id.run).performClick()
        worker.runAll()
        return text(R.id.answer)
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
        assertTrue(answer, "[CLS]" in answer)
        assertEquals(1, models.runs)
    }

    @Test
    fun `without a bundle the screen says what to do`() {
        val screen = start { throw FileNotFoundException(it) }.get()
        worker.runAll()
        assertEquals(View.GONE, screen.find<View>(R.id.form).visibility)
        assertTrue("tfdistill export" in screen.text(R.id.fault))
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
        assertTrue(screen.text(R.id.fault), screen.text(R.id.fault).startsWith("无法使用此模型"))
        assertEquals(0, models.open)
    }

    @Test
    fun `a thousand taps are one inference`() {
        val screen = start().get()
        worker.runAll()
        screen.find<EditText>(R.id.first).setText(Golden("pairs-float32").examples[0].text)
        repeat(1000) { screen.find<Button>(R.id.run).performClick() }
        worker.runAll()
        assertEquals(1, models.runs)
    }

    @Test
    fun `a screen that is turned shows what was asked for before`() {
        val controller = start()
        worker.runAll()
        val golden = Golden("pairs-float32").examples[0]
        controller.get().find<EditText>(R.id.first).setText(golden.text)
        controller.get().find<Button>(R.id.run).performClick()
        controller.recreate()
        worker.runAll()
        val screen = controller.get()
        assertEquals(golden.text, screen.text(R.id.first))
        assertTrue(screen.text(R.id.answer), "[CLS]" in screen.text(R.id.answer))
        assertEquals(1, models.runs)
        assertEquals(1, models.open)
    }

    @Test
    fun `a model that fails is reported and the screen goes on`() {
        val screen = start().get()
        worker.runAll()
        val said = screen.answer("who knows this text")
        assertTrue(said, "no golden example" in said)
        val golden = Golden("pairs-float32").examples[0]
        assertTrue("[CLS]" in screen.answer(golden.text, golden.pair.orEmpty()))
    }

    @Test
    fun `questions and words have screens of their own`() {
        val screen = start().get()
        worker.runAll()
        screen.select(1)
        assertEquals("Question", screen.find<EditText>(R.id.first).hint.toString())
        val asked = Golden("spans-float32").questions.first { it.answer.isNotEmpty() }
        assertTrue(screen.answer(asked.question, asked.context).startsWith(asked.answer))
        val none = Golden("spans-float32").questions.first { it.answer.isEmpty() }
        val said = screen.answer(none.question, none.context)
        assertTrue(said, said.startsWith("The text does not answer"))
        screen.select(2)
        assertEquals(View.GONE, screen.find<View>(R.id.second).visibility)
        assertEquals(1, models.open)
    }

    @Test
    fun `a benchmark from outside has to hold a permission`() {
        val application = RuntimeEnvironment.getApplication()
        val intent = Intent(application, BenchmarkActivity::class.java)
        val found = application.packageManager.resolveActivity(intent, 0)
        assertEquals("android.permission.DUMP", found?.activityInfo?.permission)
    }
}
