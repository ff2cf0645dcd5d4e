package io.github.tfdistill.demo

import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.GpuRecord
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.AnswerCheck
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.BundleFault
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.DeviceParity
import io.github.tfdistill.text.GoldenExamples
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Predictor
import java.util.concurrent.Executor

/** What there is to say about the GPU and the model that was chosen. */
sealed interface GpuNote {
    /** Answers are being compared. */
    data class Comparing(val done: Int, val of: Int) : GpuNote

    data class Agrees(val parity: DeviceParity) : GpuNote

    data class Differs(val parity: DeviceParity) : GpuNote

    /** It is not there, does not take the model, or failed with it. */
    data class Refused(val reason: String) : GpuNote

    data object Stopped : GpuNote

    /** The app ended with this model on it. */
    data object Ended : GpuNote
}

/** What computed an answer; [shared] if the CPU did what the GPU does not take. */
data class ComputedOn(val accelerator: Accelerator, val shared: Boolean)

/**
 * What the main screen shows.
 *
 * @property chosen name of the bundle that is open, being opened, or cannot be used
 * @property notice a string that asks the user for something
 * @property accelerator what the model runs on
 * @property gpu what there is to say about the GPU
 * @property answeredBy what the answer was computed on, and whether the CPU helped
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
    val accelerator: Accelerator = Accelerator.CPU,
    val answeredBy: ComputedOn? = null,
    val gpu: GpuNote? = null,
)

/** The main screen without its views. */
class MainModel(services: Services, private val gpu: GpuRecord, main: Executor) :
    ScreenModel<MainState>(MainState(running = true), services, main) {
    private val bundles = Bundles(services.source)
    private var preferred: String? = null
    private var runner: ModelRunner? = null // of the worker, as is what it runs on
    private var runsOn = Accelerator.CPU

    init {
        work({ bundles.names() }, ::refuse) { names ->
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
        work({ open(name) }, ::refuse) { shown -> state = shown(state).copy(running = false) }
    }

    /**
     * Wants the GPU for the model that is open, or the CPU again. Before the first time all golden
     * examples are run there and compared; only if they agree does the model move.
     */
    fun useGpu(wanted: Boolean) {
        val bundle = state.bundle ?: return
        val comparing = state.gpu is GpuNote.Comparing
        if (wanted == (comparing || state.accelerator == Accelerator.GPU)) return
        stop()
        if (!wanted) {
            gpu.switch(bundle, false)
            val note = if (comparing) GpuNote.Stopped else null
            state = state.copy(accelerator = Accelerator.CPU, gpu = note)
            return
        }
        val note = GpuNote.Comparing(0, 0)
        state = state.copy(running = true, notice = null, gpu = note)
        work({ compare(bundle, it) }, { leave(bundle, it) }) { (parity, circumstances) ->
            state = state.copy(running = false)
            if (parity == null || parity.passed) gpu.allow(bundle, circumstances)
            state =
                if (parity?.passed == false) state.copy(gpu = GpuNote.Differs(parity))
                else {
                    val agrees = parity?.let { GpuNote.Agrees(it) }
                    state.copy(accelerator = Accelerator.GPU, gpu = agrees)
                }
        }
    }

    /** Answers a text; only the latest request is queued. */
    fun run(text: String, second: String) {
        val bundle = state.bundle ?: return
        stop()
        if (text.isBlank()) {
            state = state.copy(prediction = null, error = null, notice = R.string.no_text)
            return
        }
        state = state.copy(running = true, prediction = null, error = null, notice = null)
        val on = state.accelerator
        work(
            { isCancelled ->
                marked(bundle, on) {
                    val runner = opened(bundle, on)
                    val predictor = Predictor(on.fileOf(bundle), runner, isCancelled = isCancelled)
                    predictor.predict(text, second) to ComputedOn(on, runner.sharesWithCpu)
                }
            },
            { error ->
                state = state.copy(running = false, error = error.message ?: "$error")
                if (on != Accelerator.CPU) leave(bundle, error)
            },
        ) { (prediction, by) ->
            state = state.copy(prediction = prediction, running = false, answeredBy = by)
        }
    }

    /** Stops answering. */
    fun stop() {
        if (state.bundle == null || !state.running) return // what is being opened is needed
        cancel()
        val note = if (state.gpu is GpuNote.Comparing) GpuNote.Stopped else state.gpu
        state = state.copy(running = false, gpu = note)
    }

    override fun release() = services.worker.execute(::close)

    private fun close() {
        val old = runner
        runner = null
        old?.close()
    }

    /** Opens a bundle, on the GPU if the user wanted it and it passed. */
    private fun open(name: String): (MainState) -> MainState {
        close()
        val bundle = bundles.open(name)
        var note = if (gpu.hasEnded(bundle)) GpuNote.Ended else null as GpuNote?
        if (gpu.isOn(bundle)) {
            try {
                marked(bundle, Accelerator.GPU) { opened(bundle, Accelerator.GPU) }
                return { it.copy(bundle = bundle, accelerator = Accelerator.GPU) }
            } catch (error: Exception) { // whatever a driver comes up with
                gpu.forget(bundle)
                note = GpuNote.Refused(error.message ?: "$error")
            }
        }
        opened(bundle, Accelerator.CPU)
        return { it.copy(bundle = bundle, gpu = note) }
    }

    private fun opened(bundle: Bundle, on: Accelerator): ModelRunner {
        if (runsOn != on) close()
        runsOn = on
        return runner ?: services.models.open(on.fileOf(bundle), THREADS, on).also { runner = it }
    }

    private fun <T> marked(bundle: Bundle, on: Accelerator, job: () -> T): T =
        if (on != Accelerator.CPU) gpu.during(bundle, job) else job()

    /** What the comparison came to, null where it passed before, and what that is worth. */
    private fun compare(bundle: Bundle, isCancelled: () -> Boolean): Pair<DeviceParity?, String> {
        val circumstances = gpu.circumstances()
        if (gpu.hasPassed(bundle)) return null to circumstances
        val file = Accelerator.GPU.fileOf(bundle)
        val check = AnswerCheck(file, GoldenExamples.read(file, services.source), isCancelled)
        fun progress(done: Int, of: Int) = onMain {
            if (!isCancelled()) state = state.copy(gpu = GpuNote.Comparing(done, of))
        }
        val parity =
            try {
                gpu.during(bundle) { check.parity(opened(bundle, Accelerator.GPU), ::progress) }
            } catch (error: Throwable) {
                close()
                throw error
            }
        if (!parity.passed) close()
        return parity to circumstances
    }

    /** Back to the CPU; the GPU has to be wanted anew before it is tried again. */
    private fun leave(bundle: Bundle, error: Throwable) {
        gpu.forget(bundle)
        val note = GpuNote.Refused(error.message ?: "$error")
        state = state.copy(running = false, accelerator = Accelerator.CPU, gpu = note)
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
