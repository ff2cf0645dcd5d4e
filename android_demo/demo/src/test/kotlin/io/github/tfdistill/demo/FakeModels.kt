package io.github.tfdistill.demo

import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.ModelOpener
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.GoldenExamples
import io.github.tfdistill.text.GoldenRunner
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Toys

/** A runtime that knows the golden examples, and nothing else unless it [answersAll]. */
class FakeModels(private val source: FileSource = Toys) : ModelOpener {
    /** How many models are open, and how often any ran. */
    var open = 0
        private set

    @Volatile
    var runs = 0
        private set

    /** The most that were open at a time, and what each was opened on. */
    var mostOpen = 0
        private set

    val openedOn = ArrayList<Accelerator>()
    val openedFiles = ArrayList<String>()

    /** Whether it answers texts that it does not know with ones. */
    var answersAll = false

    /** What happens during an inference. */
    var during: () -> Unit = {}

    /** What happens when a model is opened on a GPU, and what that makes of an output. */
    var openingOnGpu: () -> Unit = {}
    var onGpu: (Float) -> Float = { it }
    var gpuShares = false

    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner {
        val golden = GoldenExamples.read(bundle, source)
        openedOn += accelerator
        openedFiles += bundle.modelPath.substringAfterLast('/')
        if (accelerator != Accelerator.CPU) openingOnGpu()
        mostOpen = maxOf(mostOpen, ++open)
        val replay = GoldenRunner(bundle, golden)
        return if (accelerator != Accelerator.CPU) Runner(replay, onGpu, gpuShares)
        else Runner(replay)
    }

    private inner class Runner(
        private val replay: ModelRunner,
        private val change: (Float) -> Float = { it },
        override val sharesWithCpu: Boolean = false,
    ) : ModelRunner by replay {
        override fun run(
            signature: String,
            inputs: Map<String, IntArray>,
        ): Map<String, FloatArray> {
            runs++
            during()
            return answer(signature, inputs).mapValues { (_, values) ->
                FloatArray(values.size) { change(values[it]) }
            }
        }

        private fun answer(signature: String, inputs: Map<String, IntArray>) =
            try {
                replay.run(signature, inputs)
            } catch (error: IllegalArgumentException) {
                if (!answersAll) throw error
                signatures.getValue(signature).outputs.mapValues { (_, tensor) ->
                    FloatArray(tensor.shape.fold(1, Int::times)) { 1f }
                }
            }

        override fun close() {
            open--
        }
    }
}
