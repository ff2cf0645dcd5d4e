package io.github.tfdistill.demo

import android.content.Context
import android.net.Uri
import android.provider.DocumentsContract
import io.github.tfdistill.benchmark.BenchmarkRequest
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.BenchmarkState
import io.github.tfdistill.benchmark.BundleBenchmark
import io.github.tfdistill.benchmark.GpuRecord
import io.github.tfdistill.benchmark.ResultFiles
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Bundles
import java.io.IOException
import java.util.concurrent.CancellationException
import java.util.concurrent.Executor

/** Where a benchmark stands. */
enum class Phase {
    IDLE,
    RUNNING,
    DONE,
    CANCELLED,
    FAILED,

    /** Android ended the app while it measured. */
    INTERRUPTED,
}

/**
 * What the benchmark's screen shows.
 *
 * @property thermalStatus Android's, while it measures; null where it does not tell
 * @property result of the last benchmark that came to its end
 * @property saved what became of saving it
 */
data class MeasureState(
    val names: List<String> = emptyList(),
    val phase: Phase = Phase.IDLE,
    val finished: Int = 0,
    val of: Int = 0,
    val thermalStatus: Int? = null,
    val result: BenchmarkResult? = null,
    val error: String? = null,
    val saved: Saved? = null,
)

/** Whether a result was written where the user wanted it. */
sealed interface Saved {
    data object Done : Saved

    data class Failed(val reason: String) : Saved
}

/**
 * The benchmark's screen without its views; called on the main thread.
 *
 * What it measured, and that it began, lies in the app's own files: it is still there when Android
 * ended the app in between.
 */
class MeasureModel(
    private val context: Context,
    services: Services,
    private val gpu: GpuRecord,
    main: Executor,
) : ScreenModel<MeasureState>(MeasureState(), services, main) {
    private val files = ResultFiles(ResultProvider.folder(context), NAME)

    init {
        services.worker.execute {
            val bundleNames = runCatching { Bundles(services.source).names() }
            val last = files.state()
            val result = files.result()
            onMain {
                val names = bundleNames.getOrDefault(emptyList())
                state =
                    if (state.phase == Phase.IDLE) restored(names, last, result)
                    else state.copy(names = names)
            }
        }
    }

    /**
     * Measures.
     *
     * @param settings texts by name, as [BenchmarkRequest.parse] reads them
     */
    fun start(settings: Map<String, String?>) {
        if (state.phase == Phase.RUNNING) return
        val request =
            try {
                BenchmarkRequest.parse(settings)
            } catch (error: IllegalArgumentException) {
                state = state.copy(phase = Phase.FAILED, error = error.message)
                return
            }
        state = MeasureState(state.names, Phase.RUNNING)
        fun show(end: MeasureState) {
            state = end.copy(names = state.names)
        }
        work({ runCatching { measure(request, it) }.getOrElse(::failure) }, { throw it }, ::show)
    }

    /** Stops between two inferences. */
    fun stop() {
        if (state.phase != Phase.RUNNING) return
        cancel()
        state = state.copy(phase = Phase.CANCELLED)
    }

    /**
     * Writes the result where the user said; a part of it is never left there.
     *
     * While the user chose the target, Android may have ended the app: then it is the file's
     * result.
     */
    fun save(target: Uri) {
        val shown = state.result
        state = state.copy(saved = null)
        services.worker.execute {
            val saved =
                try {
                    val result = shown ?: files.result() ?: throw IOException("there is no result")
                    write(result, target)
                    Saved.Done
                } catch (error: Exception) { // of whichever app keeps the file
                    remove(target)
                    Saved.Failed(error.message ?: "$error")
                }
            onMain { state = state.copy(saved = saved) }
        }
    }

    private fun restored(names: List<String>, last: BenchmarkState?, result: BenchmarkResult?) =
        MeasureState(
            names,
            when {
                last?.state == BenchmarkState.RUNNING -> Phase.INTERRUPTED
                result != null -> Phase.DONE
                else -> Phase.IDLE
            },
            last?.finished ?: 0,
            last?.of ?: 0,
            result = result,
        )

    private fun measure(request: BenchmarkRequest, isCancelled: () -> Boolean): MeasureState {
        fun show(change: (MeasureState) -> MeasureState) = onMain {
            if (!isCancelled() && state.phase == Phase.RUNNING) state = change(state)
        }
        val result =
            BundleBenchmark(context, services, gpu).measure(
                request,
                isCancelled,
                { status -> show { it.copy(thermalStatus = status) } },
            ) { finished, of ->
                files.write(fileState(BenchmarkState.RUNNING, finished, of))
                show { it.copy(finished = finished, of = of) }
            }
        files.write(result)
        val count = result.measurements.size
        files.write(fileState(BenchmarkState.DONE, count, count))
        return MeasureState(phase = Phase.DONE, finished = count, of = count, result = result)
    }

    private fun failure(error: Throwable): MeasureState {
        val text = error.message ?: "$error"
        try {
            files.write(fileState(BenchmarkState.FAILED, 0, 0, text))
        } catch (_: IOException) {
            // Full storage is what is being told of, or will be next time.
        }
        val phase = if (error is CancellationException) Phase.CANCELLED else Phase.FAILED
        return MeasureState(phase = phase, error = text)
    }

    private fun fileState(word: String, finished: Int, of: Int, error: String? = null) =
        BenchmarkState(BenchmarkState.FORMAT_VERSION, word, finished, of, error)

    private fun write(result: BenchmarkResult, target: Uri) {
        val stream =
            context.contentResolver.openOutputStream(target, "wt")
                ?: throw IOException("nothing can be written there")
        stream.use(result::write)
    }

    private fun remove(target: Uri) {
        try {
            DocumentsContract.deleteDocument(context.contentResolver, target)
        } catch (_: Exception) {
            // Not every provider can; the user was told that nothing was saved.
        }
    }

    companion object {
        private const val NAME = "benchmark"

        /** Name of the file that has the last result. */
        const val FILE = "$NAME.json"
    }
}
