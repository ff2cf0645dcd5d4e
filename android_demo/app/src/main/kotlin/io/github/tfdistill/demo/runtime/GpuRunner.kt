package io.github.tfdistill.demo.runtime

import android.content.res.AssetManager
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.Environment
import com.google.ai.edge.litert.TensorBuffer
import io.github.tfdistill.demo.core.ModelRunner
import io.github.tfdistill.demo.core.SignatureTensors

/** Why a model does not run on the GPU. */
class GpuException(message: String, cause: Throwable? = null) : Exception(message, cause)

/**
 * A model on the GPU, bound by the names of its signatures.
 *
 * All of it runs there or nothing: LiteRT refuses a model of which a part would be left to the CPU,
 * unless the CPU is among the accelerators that were asked for. Two models at a time on the GPU have
 * made LiteRT fail: close one before opening another. Buffers are made once for each signature.
 *
 * @property signatures what the manifest says of the file: LiteRT looks names up and tells no types
 */
class GpuRunner
private constructor(
    private val environment: Environment,
    private val model: CompiledModel,
    override val signatures: Map<String, SignatureTensors>,
) : ModelRunner {
    private val buffers = HashMap<String, Buffers>()

    private class Buffers : AutoCloseable {
        val inputs = LinkedHashMap<String, TensorBuffer>()
        val outputs = LinkedHashMap<String, TensorBuffer>()

        override fun close() = closeAll(inputs.values + outputs.values)
    }

    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> =
        explained("run $signature") {
            val own = buffers[signature] ?: open(signature)
            for ((name, values) in inputs) own.inputs.getValue(name).writeInt(values)
            model.run(own.inputs, own.outputs, signature)
            own.outputs.mapValues { (name, buffer) ->
                val shape = signatures.getValue(signature).outputs.getValue(name).shape
                val expected = shape.fold(1, Int::times)
                val found = buffer.readFloat()
                if (found.size != expected) {
                    val received = "expected $expected numbers, received ${found.size}"
                    throw GpuException("output $name of $signature on the GPU: $received.")
                }
                found
            }
        }

    override fun close() = closeAll(buffers.values + model + environment)

    private fun open(signature: String): Buffers {
        val tensors = signatures.getValue(signature)
        val own = Buffers()
        try {
            for (name in tensors.inputs.keys) {
                own.inputs[name] = model.createInputBuffer(name, signature)
            }
            for (name in tensors.outputs.keys) {
                own.outputs[name] = model.createOutputBuffer(name, signature)
            }
        } catch (error: Throwable) {
            own.close()
            throw error
        }
        buffers[signature] = own
        return own
    }

    companion object {
        /**
         * Compiles a model for the GPU; takes seconds.
         *
         * @param path of the model among the assets
         * @throws GpuException if there is no GPU, or it does not take the whole model
         */
        fun open(
            assets: AssetManager,
            path: String,
            signatures: Map<String, SignatureTensors>,
        ): GpuRunner =
            explained("open $path") {
                val environment = Environment.create()
                try {
                    GpuRunner(environment, compile(assets, path, environment), signatures)
                } catch (error: Throwable) {
                    environment.close()
                    throw error
                }
            }

        private fun compile(assets: AssetManager, path: String, environment: Environment) =
            try {
                CompiledModel.create(
                    assets,
                    path,
                    CompiledModel.Options(Accelerator.GPU),
                    environment,
                )
            } catch (error: Exception) {
                val there = runCatching { environment.getAvailableAccelerators().joinToString() }
                val known = there.getOrDefault("unknown")
                throw IllegalStateException("${said(error)} (accelerators: $known)", error)
            }

        /** Whatever LiteRT throws, a library that is not there included, says what was done. */
        private fun <T> explained(what: String, job: () -> T): T =
            try {
                job()
            } catch (error: GpuException) {
                throw error
            } catch (error: Exception) {
                throw GpuException("$what on the GPU: ${said(error)}", error)
            } catch (error: LinkageError) {
                throw GpuException("$what on the GPU: ${said(error)}", error)
            }

        private fun said(error: Throwable) = error.message ?: "$error"

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
