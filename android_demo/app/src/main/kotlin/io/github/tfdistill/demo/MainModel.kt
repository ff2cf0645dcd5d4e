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

/** What the main screen shows. */
data class MainState(
    val names: List<String> = emptyList(),
    val bundle: Bundle? = null,
    val fault: BundleException? = null,
    val running: Boolean = false,
    val prediction: Prediction? = null,
    val error: String? = null,
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
    private var runner: ModelRunner? = null // of the worker

    init {
        work({ bundles.index().bundles.keys.sorted() }) { names ->
            state = state.copy(names = names, running = false)
            if (names.isEmpty()) fail(missing()) else select(names.first())
        }
    }

    /** Opens another bundle. */
    fun select(name: String) {
        if (state.running || name == state.bundle?.name) return
        state = state.copy(running = true, bundle = null, prediction = null, error = null)
        work({ open(name) }) { state = state.copy(bundle = it, running = false) }
    }

    /** Answers a text; a second request while one runs is not taken. */
    fun run(text: String, second: String) {
        val bundle = state.bundle ?: return
        if (state.running) return
        state = state.copy(running = true, prediction = null, error = null)
        work({ Predictor(bundle, checkNotNull(runner)).predict(text, second) }) {
            state = state.copy(prediction = it, running = false)
        }
    }

    private fun open(name: String): Bundle {
        runner?.close()
        runner = null
        val bundle = bundles.open(name)
        runner = services.models.open(bundle, THREADS, Accelerator.CPU)
        return bundle
    }

    private fun <T> work(job: () -> T, done: (T) -> Unit) {
        services.worker.execute {
            val result = runCatching(job)
            main.execute {
                result.onSuccess(done).onFailure { error ->
                    if (error is BundleException && state.bundle == null) fail(error)
                    else state = state.copy(running = false, error = error.message ?: "$error")
                }
            }
        }
    }

    private fun fail(error: BundleException) {
        state = state.copy(running = false, fault = error)
    }

    private fun missing() = BundleException(BundleFault.MISSING, "no bundle in the index")

    private companion object {
        const val THREADS = 2
    }
}
