package io.github.tfdistill.demo

import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.Bundles
import java.util.concurrent.Executor

/**
 * What a screen shows that takes a text and bundles.
 *
 * @property names of the bundles that it offers
 * @property notice a string that asks the user for something
 */
data class TextState<R : Any>(
    val names: List<String> = emptyList(),
    val running: Boolean = false,
    val result: R? = null,
    val fault: BundleException? = null,
    val error: String? = null,
    val notice: Int? = null,
)

/**
 * A screen that takes a text and bundles, and shows what comes of them.
 *
 * @param names of the bundles that can be used
 * @param emptyNotice what is said where there are none
 */
abstract class TextModel<R : Any>(
    services: Services,
    main: Executor,
    names: (Bundles) -> List<String>,
    emptyNotice: Int? = null,
) : ScreenModel<TextState<R>>(TextState(running = true), services, main) {
    protected val bundles = Bundles(services.source)

    init {
        work({ names(bundles) }, ::fail) {
            val notice = emptyNotice.takeIf { _ -> it.isEmpty() }
            state = state.copy(names = it, running = false, notice = notice)
        }
    }

    /** Called on the worker. */
    protected abstract fun answer(
        names: List<String>,
        text: String,
        second: String,
        isCancelled: () -> Boolean,
    ): R

    /** Answers a text; only the latest request is queued. */
    fun run(names: List<String>, text: String, second: String = "") {
        if (text.isBlank()) {
            stop()
            state = TextState(state.names, notice = R.string.no_text)
            return
        }
        state = TextState(state.names, running = true)
        work({ answer(names, text, second, it) }, ::fail) {
            state = state.copy(running = false, result = it)
        }
    }

    /** Stops answering. */
    fun stop() {
        cancel()
        state = state.copy(running = false)
    }

    private fun fail(error: Throwable) {
        state =
            if (error is BundleException) state.copy(running = false, fault = error)
            else state.copy(running = false, error = error.message ?: "$error")
    }

    protected companion object {
        const val THREADS = 2
    }
}
