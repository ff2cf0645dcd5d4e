package io.github.tfdistill.demo.benchmark

import android.content.Context
import android.os.Process
import android.os.SystemClock
import io.github.tfdistill.demo.Services
import io.github.tfdistill.demo.core.BenchmarkRequest
import io.github.tfdistill.demo.core.BenchmarkResult
import io.github.tfdistill.demo.core.BenchmarkRun
import io.github.tfdistill.demo.core.BenchmarkState
import io.github.tfdistill.demo.core.Bundle
import io.github.tfdistill.demo.core.Bundles
import io.github.tfdistill.demo.core.GoldenExamples
import io.github.tfdistill.demo.core.Inputs
import io.github.tfdistill.demo.core.Measured
import io.github.tfdistill.demo.core.ModelFile
import java.io.File
import java.io.IOException

/** A benchmark that was started from outside: runs on the worker and leaves files behind. */
class BenchmarkJob(
    private val context: Context,
    private val services: Services,
    private val extras: Map<String, Any?>,
    private val tell: (BenchmarkState) -> Unit,
) : Runnable {
    @Volatile private var isCancelled = false
    private var finished = 0
    private var of = 0

    /** Stops between two inferences. */
    fun cancel() {
        isCancelled = true
    }

    override fun run() {
        val folder = File(context.getExternalFilesDir(null) ?: context.filesDir, ResultFiles.FOLDER)
        val files = BenchmarkRequest.runId(extras)?.let { ResultFiles(folder, it) }
        try {
            val request = BenchmarkRequest.parse(extras)
            report(files, BenchmarkState.RUNNING, null)
            val result = measure(request, files)
            files?.write(result)
            report(files, BenchmarkState.DONE, null)
        } catch (error: Exception) { // whatever it is, the one who waits has to hear of it
            val message = error.message ?: error.toString()
            try {
                report(files, BenchmarkState.FAILED, message)
            } catch (full: IOException) {
                tell(state(BenchmarkState.FAILED, "$message\n${full.message}"))
            }
        }
    }

    private fun measure(request: BenchmarkRequest, files: ResultFiles?): BenchmarkResult {
        val bundle = Bundles(services.source).open(request.bundle)
        val golden = GoldenExamples.read(bundle, services.source)
        AndroidProbe(context).use { probe ->
            val created = probe.now()
            val before = probe.conditions()
            val run =
                BenchmarkRun(
                    bundle,
                    request,
                    golden,
                    probe,
                    { services.models.open(bundle, it, request.accelerator) },
                    processStartMs = processStartMs(),
                    isCancelled = { isCancelled },
                    progress = { finished, of ->
                        this.finished = finished
                        this.of = of
                        report(files, BenchmarkState.RUNNING, null)
                    },
                )
            val measured = run.measure()
            return BenchmarkResult(
                formatVersion = BenchmarkResult.FORMAT_VERSION,
                kind = DeviceInfo.kind(),
                backend = BenchmarkResult.BACKEND,
                created = created,
                tfdistillVersion = bundle.manifest.tfdistillVersion,
                command = listOf(context.packageName),
                settings = request.toSettings(run.lengths),
                device = DeviceInfo.device(context),
                runtime = DeviceInfo.runtime(context, services.runtimeVersion()),
                before = before,
                after = probe.conditions(),
                models = listOf(file(bundle, golden)),
                measurements = measured.measurements,
                texts = measured.texts,
                sustained = measured.sustained,
                notes = notes(measured),
            )
        }
    }

    private fun file(bundle: Bundle, golden: GoldenExamples): ModelFile {
        val card = bundle.manifest
        return ModelFile(
            name = bundle.name,
            file = "${bundle.entry.folder}/${card.model.file}",
            sha256 = card.model.sha256,
            sizeBytes = card.model.sizeBytes,
            quantization = card.quantization,
            manifest = card,
            inputs = Inputs("golden", golden.examples.size),
        )
    }

    private fun notes(measured: Measured): List<String> {
        val states = measured.measurements.flatMap { listOf(it.before, it.after) }
        val worst = states.mapNotNull { it?.thermalStatus }.maxOrNull() ?: 0
        return if (worst > 0) listOf("The device throttled: thermal status $worst.")
        else emptyList()
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
