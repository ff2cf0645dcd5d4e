package io.github.tfdistill.demo

import android.content.Context
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.Environment
import com.google.ai.edge.litert.TensorBuffer
import io.github.tfdistill.benchmark.AcceleratorException
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.SignatureTensors
import io.github.tfdistill.text.TensorRecord

/**
 * A model on the GPU, bound by the names of its signatures.
 *
 * All of it, where LiteRT takes all of it; else the CPU computes the rest, as [sharesWithCpu] says.
 * What computes nothing of a signature is refused: it would answer as the CPU does, bit for bit.
 * Two models at a time on a GPU have made LiteRT fail: close one before opening another. Buffers
 * are made once for each signature.
 *
 * @property signatures what the manifest says of the file: LiteRT looks names up and tells no types
 */
class AcceleratorRunner
private constructor(
    private val environment: Environment?,
    private val model: CompiledModel,
    override val signatures: Map<String, SignatureTensors>,
    override val sharesWithCpu: Boolean,
) : ModelRunner {
    private val buffers = HashMap<String, Buffers>()

    private class Buffers : AutoCloseable {
        val inputs = LinkedHashMap<String, TensorBuffer>()
        val outputs = LinkedHashMap<String, TensorBuffer>()

        override fun close() = closeAll(inputs.values + outputs.values)
    }

    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> =
        explained("run $signature") {
            val bound = buffers[signature] ?: open(signature)
            for ((name, values) in inputs) bound.inputs.getValue(name).writeInt(values)
            model.run(bound.inputs, bound.outputs, signature)
            bound.outputs.mapValues { (name, buffer) ->
                val shape = signatures.getValue(signature).outputs.getValue(name).shape
                val expected = shape.fold(1, Int::times)
                val output = buffer.readFloat()
                if (output.size != expected) {
                    val received = "expected $expected numbers, received ${output.size}"
                    throw AcceleratorException("output $name of $signature on the GPU: $received.")
                }
                output
            }
        }

    override fun close() = closeAll(buffers.values + listOfNotNull(model, environment))

    private fun open(signature: String): Buffers {
        val tensors = signatures.getValue(signature)
        val bound = Buffers()
        try {
            for (name in tensors.inputs.keys) {
                bound.inputs[name] = model.createInputBuffer(name, signature)
            }
            for (name in tensors.outputs.keys) {
                bound.outputs[name] = model.createOutputBuffer(name, signature)
            }
        } catch (error: Throwable) {
            bound.close()
            throw error
        }
        buffers[signature] = bound
        return bound
    }

    companion object {
        private const val FEW_IDS = 10 // of any vocabulary

        /**
         * Compiles a model for the GPU; takes seconds.
         *
         * @param path of the model among the assets
         * @throws AcceleratorException if there is none, or it takes no part of a signature
         */
        fun open(
            context: Context,
            path: String,
            signatures: Map<String, SignatureTensors>,
        ): AcceleratorRunner =
            explained("open $path") {
                val environment = Environment.create()
                fun compile(vararg on: Accelerator): CompiledModel {
                    val options = CompiledModel.Options(*on)
                    return CompiledModel.create(context.assets, path, options, environment)
                }
                try {
                    // Without the CPU among them, LiteRT throws if any of it would be left over.
                    val whole = runCatching { compile(Accelerator.GPU) }
                    whole.getOrNull()?.let { AcceleratorRunner(environment, it, signatures, false) }
                        ?: shared(environment, signatures, whole.exceptionOrNull(), ::compile)
                } catch (error: Throwable) {
                    environment.close()
                    throw error
                }
            }

        /** A model of which the GPU computes a part at every length; [refused] says why not all. */
        private fun shared(
            environment: Environment,
            signatures: Map<String, SignatureTensors>,
            refused: Throwable?,
            compile: (Array<Accelerator>) -> CompiledModel,
        ): AcceleratorRunner {
            val both = arrayOf(Accelerator.GPU, Accelerator.CPU)
            val runner = AcceleratorRunner(environment, compile(both), signatures, true)
            try {
                val alone = compile(arrayOf(Accelerator.CPU))
                AcceleratorRunner(null, alone, signatures, true).use { cpu ->
                    for ((name, tensors) in signatures) {
                        val inputs = tensors.inputs.mapValues { probe(it.key, it.value) }
                        val (here, there) = runner.run(name, inputs) to cpu.run(name, inputs)
                        val same = here.all { it.value.contentEquals(there.getValue(it.key)) }
                        if (!same) continue
                        val available = environment.getAvailableAccelerators().joinToString()
                        val why = refused?.let(::messageOf)
                        throw AcceleratorException(
                            "The GPU takes no part of $name. LiteRT says: $why (accelerators: $available)"
                        )
                    }
                }
                return runner
            } catch (error: Throwable) {
                runner.close()
                throw error
            }
        }

        /** Some ids of a text that fills the length, in one segment. */
        private fun probe(name: String, tensor: TensorRecord): IntArray {
            val size = tensor.shape.fold(1, Int::times)
            return IntArray(size) {
                when (name) {
                    "input_ids" -> it % FEW_IDS
                    "attention_mask" -> 1
                    else -> 0
                }
            }
        }

        /** Whatever LiteRT throws, a library that is not there included, says what was done. */
        private fun <T> explained(what: String, job: () -> T): T =
            try {
                job()
            } catch (error: AcceleratorException) {
                throw error
            } catch (error: Exception) {
                throw AcceleratorException("$what on the GPU: ${messageOf(error)}", error)
            } catch (error: LinkageError) {
                throw AcceleratorException("$what on the GPU: ${messageOf(error)}", error)
            }

        private fun messageOf(error: Throwable) = error.message ?: "$error"

        /** Closes all, also when one of them fails to. */
        private fun closeAll(handles: Collection<AutoCloseable>) {
            var failed: Throwable? = null
            for (handle in handles) {
                try {
                    handle.close()
                } catch (error: Exception) {
                    failed = failed ?: error
                }
            }
            failed?.let { throw it }
        }
    }
}
