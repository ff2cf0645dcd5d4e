package io.github.tfdistill.demo

import android.app.Activity
import android.content.Intent
import android.os.Looper
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.TextView
import io.github.tfdistill.benchmark.ModelOpener
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import java.util.concurrent.AbstractExecutorService
import java.util.concurrent.TimeUnit
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController

/** Runs jobs when a test says so. */
class Later : AbstractExecutorService() {
    private val jobs = ArrayDeque<Runnable>()

    /** How many jobs wait. */
    val waiting: Int
        get() = jobs.size

    override fun execute(job: Runnable) {
        jobs.add(job)
    }

    /** Runs all that waits, and what that starts on the main thread. */
    fun runAll() {
        shadowOf(Looper.getMainLooper()).idle()
        while (jobs.isNotEmpty()) {
            jobs.removeFirst().run()
            shadowOf(Looper.getMainLooper()).idle()
        }
    }

    override fun shutdown() = Unit

    override fun shutdownNow(): List<Runnable> = emptyList()

    override fun isShutdown() = false

    override fun isTerminated() = false

    override fun awaitTermination(time: Long, unit: TimeUnit) = true
}

/** Screens whose models replay golden outputs, and whose worker runs when a test says so. */
abstract class ScreenTest {
    protected val worker = Later()
    protected val models = FakeModels()
    protected val application = RuntimeEnvironment.getApplication() as DemoApplication

    /** Begins a new process, as far as models and what they stand on go. */
    protected fun begin(
        source: FileSource = Toys,
        opener: ModelOpener = models,
        version: String? = null,
    ) {
        application.services = Services(source, opener, worker, runtimeVersion = { version })
    }

    protected fun <T : Activity> open(
        screen: Class<T>,
        intent: Intent? = null,
    ): ActivityController<T> =
        Robolectric.buildActivity(screen, intent).setup().also { worker.runAll() }

    protected fun Activity.shown(id: Int) = find<TextView>(id).text.toString()

    protected fun Activity.enter(id: Int, text: String?) = find<EditText>(id).setText(text)

    /** Presses a button, and lets all happen that follows. */
    protected fun Activity.press(id: Int) {
        find<Button>(id).performClick()
        worker.runAll()
    }
}

/** A view that has to be there. */
fun <T : View> Activity.find(id: Int): T = checkNotNull(findViewById<T>(id))
