package io.github.tfdistill.demo

import io.github.tfdistill.demo.core.Accelerator
import io.github.tfdistill.demo.core.Bundle
import io.github.tfdistill.demo.core.BundleException
import io.github.tfdistill.demo.core.BundleFault
import io.github.tfdistill.demo.core.Bundles
import io.github.tfdistill.demo.core.ModelRunner
import io.github.tfdistill.demo.core.Prediction
import io.github.tfdistill.demo.core.Predictor
import java.util.concurrent.Executor

/**
 * What the main screen shows.
 *
 * @property chosen name of the bundle that is open, being opened, or cannot be used
 * @property notice a string that asks the user for something
 */
data class MainState(
    val names: List<String> = emptyList(),
    val chosen: String? = null,
    val bundle: Bundle? = null,
    val fault: BundleException? = null,
    val running: Boolean = false,
    val prediction: Prediction? = null,
    val error: String? = null,
    val notice: Int? = null,
)

/**
 * The main screen without its views: it outlives them when the device is turned.
 *
 * All methods are called on the main thread; models run on the worker.
 */
class MainModel(private val services: Services, private val main: Executor) {
    var state = MainState(running = true)
        private set(value) {
            field = value
            listener?.invoke(value)
        }

    /** Is told every state; null while there is nobody to see it. */
    var listener: ((MainState) -> Unit)? = null

    private val bundles = Bundles(services.source)
    private val latest = Latest(services.worker)
    private var preferred: String? = null
    private var runner: ModelRunner? = null // of the worker

    init {
        work({ bundles.index().bundles.keys.sorted() }, ::refuse) { names ->
            state = state.copy(names = names, running = false)
            if (names.isEmpty()) refuse(BundleException(BundleFault.MISSING, "an empty index"))
            else select(preferred.takeIf { it in names } ?: names.first())
        }
    }

    /** The bundle to begin with, if it is there: the one before Android ended the app. */
    fun prefer(name: String?) {
        preferred = name
    }

    /** Opens another bundle. */
    fun select(name: String) {
        if (name == state.chosen) return
        state = MainState(state.names, name, running = true)
        work({ open(name) }, ::refuse) { state = state.copy(bundle = it, running = false) }
    }

    /** Answers a text; what was asked before is no longer wanted. */
    fun run(text: String, second: String) {
        val bundle = state.bundle ?: return
        stop()
        if (text.isBlank()) {
            state = state.copy(prediction = null, error = null, notice = R.string.no_text)
            return
        }
        state = state.copy(running = true, prediction = null, error = null, notice = null)
        work(
            { Predictor(bundle, opened(bundle), isCancelled = it).predict(text, second) },
            { state = state.copy(running = false, error = it.message ?: "$it") },
        ) {
            state = state.copy(prediction = it, running = false)
        }
    }

    /** Stops answering. */
    fun stop() {
        if (state.bundle == null || !state.running) return // what is being opened is needed
        latest.cancel()
        state = state.copy(running = false)
    }

    /** Closes the model until it is needed again: Android wants the memory. */
    fun release() = services.worker.execute(::close)

    private fun close() {
        runner?.close()
        runner = null
    }

    private fun open(name: String): Bundle {
        close()
        return bundles.open(name).also { opened(it) }
    }

    private fun opened(bundle: Bundle): ModelRunner =
        runner ?: services.models.open(bundle, THREADS, Accelerator.CPU).also { runner = it }

    private fun <T> work(
        job: (isCancelled: () -> Boolean) -> T,
        failed: (Throwable) -> Unit,
        done: (T) -> Unit,
    ) =
        latest.submit { isCancelled ->
            val result = runCatching { job(isCancelled) }
            main.execute { if (!isCancelled()) result.fold(done, failed) }
        }

    /** Whatever keeps a model from being opened, the screen says it. */
    private fun refuse(error: Throwable) {
        val fault =
            error as? BundleException
                ?: BundleException(BundleFault.UNSUITABLE, error.message ?: "$error", error)
        state = state.copy(running = false, fault = fault)
    }

    private companion object {
        const val THREADS = 2
    }
}
