package io.github.tfdistill.demo

import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.benchmark.Side
import io.github.tfdistill.benchmark.SideBySide
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Prediction
import java.util.concurrent.Executor

/** A bundle and what it answered. */
class Compared(val bundle: Bundle, val prediction: Prediction)

/** What the screen that compares shows; [answers] is empty or has both. */
data class CompareState(
    val names: List<String> = emptyList(),
    val running: Boolean = false,
    val answers: List<Compared> = emptyList(),
    val fault: BundleException? = null,
    val error: String? = null,
    val notice: Int? = null,
)

/** The screen that compares, without its views; called on the main thread. */
class CompareModel(private val services: Services, private val main: Executor) {
    var state = CompareState(running = true)
        private set(value) {
            field = value
            listener?.invoke(value)
        }

    /** Is told every state; null while there is nobody to see it. */
    var listener: ((CompareState) -> Unit)? = null

    private val bundles = Bundles(services.source)
    private val latest = Latest(services.worker)
    private val opened = HashMap<String, Bundle>() // of the worker: checked once, not each time

    init {
        work({ bundles.names() }) { state = state.copy(names = it, running = false) }
    }

    /** Answers a text with two bundles; what was asked before is no longer wanted. */
    fun run(names: List<String>, text: String, second: String) {
        if (text.isBlank()) {
            stop()
            state = CompareState(state.names, notice = R.string.no_text)
            return
        }
        state = CompareState(state.names, running = true)
        work({ answers(names, text, second, it) }) {
            state = state.copy(running = false, answers = it)
        }
    }

    /** Stops answering. */
    fun stop() {
        latest.cancel()
        state = state.copy(running = false)
    }

    private fun answers(
        names: List<String>,
        text: String,
        second: String,
        isCancelled: () -> Boolean,
    ): List<Compared> {
        val sides = ArrayList<Side>()
        try {
            for (name in names) {
                val bundle = opened.getOrPut(name) { bundles.open(name) }
                sides += Side(bundle, services.models.open(bundle, THREADS, Accelerator.CPU))
            }
            val found = SideBySide(sides, isCancelled = isCancelled).predict(text, second)
            return sides.zip(found) { side, prediction -> Compared(side.bundle, prediction) }
        } finally {
            sides.forEach { it.runner.close() }
        }
    }

    private fun <T> work(job: (isCancelled: () -> Boolean) -> T, done: (T) -> Unit) =
        latest.submit { isCancelled ->
            val result = runCatching { job(isCancelled) }
            main.execute { if (!isCancelled()) result.fold(done, ::fail) }
        }

    private fun fail(error: Throwable) {
        state =
            if (error is BundleException) state.copy(running = false, fault = error)
            else state.copy(running = false, error = error.message ?: "$error")
    }

    private companion object {
        const val THREADS = 2
    }
}
