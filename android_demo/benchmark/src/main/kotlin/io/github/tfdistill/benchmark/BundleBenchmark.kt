package io.github.tfdistill.benchmark

import android.content.Context
import io.github.tfdistill.text.AnswerCheck
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.DeviceParity
import io.github.tfdistill.text.GoldenExamples
import java.util.Locale

/** From a request to a whole benchmark.json. */
class BundleBenchmark(
    private val context: Context,
    private val services: Services,
    private val gpu: GpuRecord,
) {
    /**
     * Measures; takes minutes. On the GPU the answers are compared first, each time.
     *
     * @param isCancelled is asked between inferences
     * @param heat is told the thermal status whenever Android tells it
     * @param progress is told after each measurement how many of how many are finished
     * @throws java.util.concurrent.CancellationException if it is told to stop
     * @throws AcceleratorException if the GPU does not take the model, or answers differently
     */
    fun measure(
        request: BenchmarkRequest,
        isCancelled: () -> Boolean,
        heat: (status: Int) -> Unit,
        progress: (finished: Int, of: Int) -> Unit,
    ): BenchmarkResult {
        val bundle = Bundles(services.source).open(request.bundle)
        val golden = GoldenExamples.read(bundle, services.source)
        if (request.accelerator == Accelerator.CPU) {
            return measure(bundle, golden, request, isCancelled, heat, progress)
        }
        return gpu.during(bundle) {
            val (parity, shared) =
                services.models.open(bundle, 1, request.accelerator).use {
                    AnswerCheck(bundle, golden, isCancelled).parity(it) to it.sharesWithCpu
                }
            if (!parity.passed) throw AcceleratorException(parity.faults().joinToString("\n"))
            val result = measure(bundle, golden, request, isCancelled, heat, progress)
            result.copy(notes = result.notes + note(parity) + listOf(SHARED).filter { shared })
        }
    }

    private fun measure(
        bundle: Bundle,
        golden: GoldenExamples,
        request: BenchmarkRequest,
        isCancelled: () -> Boolean,
        heat: (status: Int) -> Unit,
        progress: (finished: Int, of: Int) -> Unit,
    ): BenchmarkResult {
        AndroidProbe(context, heat).use { probe ->
            val created = probe.now()
            val before = probe.conditions()
            val run =
                BenchmarkRun(
                    bundle,
                    request,
                    golden,
                    probe,
                    { services.models.open(bundle, it, request.accelerator) },
                    isCancelled,
                    progress,
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
                answers = measured.answers,
                failures = measured.failures,
                notes = notes(measured),
            )
        }
    }

    private fun note(parity: DeviceParity) =
        "${parity.numAnswers} golden answers were compared on the GPU first; the largest error / " +
            "rms was %.3g of %.3g allowed."
                .format(Locale.ROOT, parity.maxError, parity.bounds.maxError)

    private fun file(bundle: Bundle, golden: GoldenExamples): ModelFile {
        val card = bundle.manifest
        return ModelFile(
            name = bundle.name,
            file = bundle.modelPath.substringAfter('/'),
            sha256 = card.model.sha256,
            sizeBytes = card.model.sizeBytes,
            quantization = card.quantization,
            manifest = card,
            inputs = Inputs("golden", golden.size),
        )
    }

    private fun notes(measured: Measured): List<String> {
        val states = measured.measurements.flatMap { listOf(it.before, it.after) }
        val worst = states.mapNotNull { it?.thermalStatus }.maxOrNull() ?: 0
        return if (worst > 0) listOf("The device throttled: thermal status $worst.")
        else emptyList()
    }

    private companion object {
        const val SHARED = "The CPU computed the part of the model that the GPU does not take."
    }
}
