package io.github.tfdistill.demo

import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Match
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Predictor
import io.github.tfdistill.text.TextIndex
import io.github.tfdistill.text.TextIndexCard
import java.util.concurrent.Executor

/**
 * What a search found.
 *
 * @property prediction how the question became a vector
 * @property searchMs the time of the search alone
 */
class Found(
    val card: TextIndexCard,
    val matches: List<Match>,
    val prediction: Prediction,
    val searchMs: Double,
) {
    /** Whether the best row is nearer than unrelated texts are. */
    val isNear: Boolean
        get() = card.threshold?.let { matches.first().score >= it } ?: true
}

/** What the screen that searches shows; [names] are of the bundles that have an index. */
data class SearchState(
    val names: List<String> = emptyList(),
    val running: Boolean = false,
    val found: Found? = null,
    val fault: BundleException? = null,
    val error: String? = null,
    val notice: Int? = null,
)

/** The screen that searches, without its views; called on the main thread. */
class SearchModel(private val services: Services, private val main: Executor) {
    var state = SearchState(running = true)
        private set(value) {
            field = value
            listener?.invoke(value)
        }

    /** Is told every state; null while there is nobody to see it. */
    var listener: ((SearchState) -> Unit)? = null

    private class Opened(val bundle: Bundle, val index: TextIndex)

    private val bundles = Bundles(services.source)
    private val latest = Latest(services.worker)
    private var opened: Opened? = null // of the worker, as is the runtime
    private var runner: ModelRunner? = null

    init {
        work({ bundles.searchable() }) {
            val notice = if (it.isEmpty()) R.string.no_index else null
            state = state.copy(names = it, running = false, notice = notice)
        }
    }

    /** Finds the texts that are nearest to a question; what was asked before is dropped. */
    fun run(name: String, question: String) {
        if (question.isBlank()) {
            stop()
            state = SearchState(state.names, notice = R.string.no_text)
            return
        }
        state = SearchState(state.names, running = true)
        work({ search(name, question, it) }) { state = state.copy(running = false, found = it) }
    }

    /** Stops searching. */
    fun stop() {
        latest.cancel()
        state = state.copy(running = false)
    }

    /** Closes the model until it is needed again: Android wants the memory. */
    fun release() = services.worker.execute(::close)

    private fun close() {
        val old = runner
        runner = null
        old?.close()
        opened = null
    }

    private fun search(name: String, question: String, isCancelled: () -> Boolean): Found {
        if (opened?.bundle?.name != name) close()
        val own =
            opened
                ?: bundles.open(name).let { Opened(it, bundles.openIndex(it)) }.also { opened = it }
        val model =
            runner
                ?: services.models.open(own.bundle, THREADS, Accelerator.CPU).also { runner = it }
        val predictor = Predictor(own.bundle, model, isCancelled = isCancelled)
        val prediction = predictor.predict(question)
        val begin = System.nanoTime()
        val matches = own.index.search((prediction.outcome as Outcome.Vector).values, SHOWN)
        val searchMs = (System.nanoTime() - begin) / 1e6
        return Found(own.index.card, matches, prediction, searchMs)
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
        const val SHOWN = 5
    }
}
