package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import io.github.tfdistill.benchmark.Services
import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicReference

/**
 * A screen without its views, which it outlives when the device is turned.
 *
 * All methods are called on the main thread; models run on the worker.
 */
abstract class ScreenModel<S : Any>(
    first: S,
    protected val services: Services,
    private val main: Executor,
) {
    var state: S = first
        protected set(value) {
            field = value
            listener?.invoke(value)
        }

    /** Is told every state; null while there is nobody to see it. */
    var listener: ((S) -> Unit)? = null

    private val latest = Latest(services.worker)

    /** Does a job in the place of all before, and tells what became of it if none followed. */
    protected fun <T> work(
        job: (isCancelled: () -> Boolean) -> T,
        failed: (Throwable) -> Unit,
        done: (T) -> Unit,
    ) =
        latest.submit { isCancelled ->
            val result = runCatching { job(isCancelled) }
            onMain { if (!isCancelled()) result.fold(done, failed) }
        }

    /** Stops the job that runs, and drops the one that waits. */
    protected fun cancel() = latest.cancel()

    protected fun onMain(job: () -> Unit) = main.execute(job)

    /** Closes what is open until it is needed again: Android wants the memory. */
    open fun release() = Unit
}

/**
 * Shows the states of a model while it can be seen.
 *
 * @property texts the fields that are saved unless their text is too long
 */
abstract class Screen<S : Any>(private val layout: Int, private vararg val texts: Int) :
    Activity() {
    protected abstract val model: ScreenModel<S>

    protected val demo: DemoApplication
        get() = application as DemoApplication

    protected abstract fun show(state: S)

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        showLayout(layout)
        actionBar?.setDisplayHomeAsUpEnabled(parentActivityIntent != null)
    }

    override fun onStart() {
        super.onStart()
        model.listener = ::show
        show(model.state)
    }

    override fun onStop() {
        model.listener = null
        super.onStop()
    }

    override fun onSaveInstanceState(out: Bundle) {
        saveTexts(*texts)
        super.onSaveInstanceState(out)
        out.putStringArrayList(CHOSEN, ArrayList(chosen()))
    }

    /** Names of the bundles that the user chose. */
    protected abstract fun chosen(): List<String>

    /** Those that were chosen when Android ended the app; none if it did not. */
    protected fun chosenBefore(saved: Bundle?): List<String> =
        saved?.getStringArrayList(CHOSEN).orEmpty()

    private companion object {
        const val CHOSEN = "chosen"
    }
}

/**
 * Runs the newest of the jobs that it is given: one that waits is dropped for a newer one, one that
 * runs is told to stop. However many are given, at most one waits.
 *
 * Its methods are called on one thread; jobs run on the worker, one after the other.
 */
class Latest(private val worker: Executor) {
    private class Job(val body: (isCancelled: () -> Boolean) -> Unit) {
        @Volatile var isCancelled = false
    }

    private val waiting = AtomicReference<Job?>()
    private var newest: Job? = null

    /** Takes the place of all jobs before. */
    fun submit(body: (isCancelled: () -> Boolean) -> Unit) {
        cancel()
        val job = Job(body)
        newest = job
        if (waiting.getAndSet(job) == null) worker.execute(::runWaiting)
    }

    /** Stops what runs, and drops what waits. */
    fun cancel() {
        newest?.isCancelled = true
        newest = null
    }

    private fun runWaiting() {
        val job = waiting.getAndSet(null) ?: return
        if (!job.isCancelled) job.body { job.isCancelled }
    }
}
