package io.github.tfdistill.runtime

import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.RunnerFactory
import io.github.tfdistill.text.SignatureTensors
import io.github.tfdistill.text.TensorRecord
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.tensorflow.lite.DataType
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.Tensor
import org.tensorflow.lite.TensorFlowLite

/**
 * A model on the CPU with TensorFlow Lite, bound by the names of its signatures.
 *
 * Buffers are made once for each signature: an inference allocates nothing but its outputs.
 */
public class InterpreterRunner(model: ByteBuffer, threads: Int = THREADS) : ModelRunner {
    private val interpreter =
        Interpreter(model, Interpreter.Options().setNumThreads(threads).setUseXNNPACK(true))

    override val signatures: Map<String, SignatureTensors> =
        interpreter.signatureKeys.associateWith { key ->
            SignatureTensors(
                interpreter.getSignatureInputs(key).associateWith {
                    record(interpreter.getInputTensorFromSignature(it, key))
                },
                interpreter.getSignatureOutputs(key).associateWith {
                    record(interpreter.getOutputTensorFromSignature(it, key))
                },
            )
        }

    override val runtime: String
        get() = "TensorFlow Lite ${TensorFlowLite.runtimeVersion()}"

    private val buffers = HashMap<String, Buffers>()

    private class Buffers(
        val inputs: Map<String, ByteBuffer>,
        val outputs: Map<String, ByteBuffer>,
    )

    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> {
        val bound = buffers.getOrPut(signature) { buffersOf(signatures.getValue(signature)) }
        for ((name, values) in inputs) {
            val buffer = bound.inputs.getValue(name)
            buffer.rewind()
            buffer.asIntBuffer().put(values)
        }
        bound.outputs.values.forEach { it.rewind() }
        interpreter.runSignature(bound.inputs, bound.outputs, signature)
        return bound.outputs.mapValues { (_, buffer) ->
            buffer.rewind()
            val floats = buffer.asFloatBuffer()
            FloatArray(floats.remaining()).also { floats.get(it) }
        }
    }

    override fun close(): Unit = interpreter.close()

    private fun buffersOf(tensors: SignatureTensors) =
        Buffers(tensors.inputs.mapValues(::buffer), tensors.outputs.mapValues(::buffer))

    private fun buffer(entry: Map.Entry<String, TensorRecord>): ByteBuffer {
        val count = entry.value.shape.fold(1, Int::times)
        return ByteBuffer.allocateDirect(Int.SIZE_BYTES * count).order(ByteOrder.nativeOrder())
    }

    private fun record(tensor: Tensor): TensorRecord {
        val type =
            when (tensor.dataType()) {
                DataType.INT32 -> "int32"
                DataType.FLOAT32 -> "float32"
                else -> tensor.dataType().name.lowercase()
            }
        return TensorRecord(type, tensor.shape().asList())
    }

    public companion object {
        internal const val THREADS = 2

        /** Opens models on the CPU with a number of threads. */
        public fun factory(threads: Int = THREADS): RunnerFactory = RunnerFactory {
            InterpreterRunner(it, threads)
        }
    }
}
