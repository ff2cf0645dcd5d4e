package io.github.tfdistill.benchmark

import android.content.Context
import android.os.Process
import android.os.SystemClock
import java.io.File
import java.io.IOException
import java.util.concurrent.CancellationException
import java.util.concurrent.atomic.AtomicReference

/** A benchmark that was started from outside: runs on the worker and leaves files behind. */
class BenchmarkJob(
    private val context: Context,
    private val services: Services,
    private val gpu: GpuRecord,
    private val extras: Map<String, Any?>,
    private val tell: (BenchmarkState) -> Unit,
) : Runnable {
    private val cancelled = AtomicReference<String>()
    private var finished = 0
    private var of = 0

    /** Stops between two inferences and writes the first [reason] into the state. */
    fun cancel(reason: String) {
        cancelled.compareAndSet(null, reason)
    }

    override fun run() {
        val folder = File(context.getExternalFilesDir(null) ?: context.filesDir, ResultFiles.FOLDER)
        val files = BenchmarkRequest.runId(extras)?.let { ResultFiles(folder, it) }
        try {
            val request = BenchmarkRequest.parse(extras)
            report(files, BenchmarkState.RUNNING, null)
            val result = measure(request, files)
            cancelled.get()?.let { throw CancellationException(it) } // after the last inference
            files?.write(result)
            report(files, BenchmarkState.DONE, null)
        } catch (error: Throwable) { // whatever it is, the one who waits has to hear of it
            val reason = cancelled.get().takeIf { error is CancellationException }
            val message = reason ?: error.message ?: error.toString()
            try {
                report(files, BenchmarkState.FAILED, message)
            } catch (full: IOException) {
                tell(state(BenchmarkState.FAILED, "$message\n${full.message}"))
            }
        }
    }

    private fun measure(request: BenchmarkRequest, files: ResultFiles?): BenchmarkResult =
        BundleBenchmark(context, services, gpu).measure(
            request,
            processStartMs(),
            isCancelled = { cancelled.get() != null },
        ) { finished, of ->
            this.finished = finished
            this.of = of
            report(files, BenchmarkState.RUNNING, null)
        }

    private fun processStartMs(): Double =
        (SystemClock.elapsedRealtime() - Process.getStartElapsedRealtime()).toDouble()

    private fun report(files: ResultFiles?, word: String, error: String?) {
        val state = state(word, error)
        files?.write(state)
        tell(state)
    }

    private fun state(word: String, error: String?) =
        BenchmarkState(BenchmarkState.FORMAT_VERSION, word, finished, of, error)
}
