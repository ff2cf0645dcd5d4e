package io.github.tfdistill.text

import java.nio.ByteBuffer

/** Opens models with a runtime. */
public fun interface RunnerFactory {
    /**
     * Opens a model file; the caller closes it.
     *
     * @param model content of the file
     */
    public fun open(model: ByteBuffer): ModelRunner
}

/** A model file that a runtime has opened; used by one thread at a time. */
public interface ModelRunner : AutoCloseable {
    /** What the runtime sees in the file, by name of the signature. */
    public val signatures: Map<String, SignatureTensors>

    /** Whether the CPU computes the part that an accelerator does not take. */
    public val sharesWithCpu: Boolean
        get() = false

    /** Name and version of the runtime; if not null, [Predictor.open] compares a golden answer. */
    public val runtime: String?
        get() = null

    /**
     * Runs a signature.
     *
     * @param inputs int32 of the signature's length each, by name: never by position
     * @return the outputs by name, flat
     */
    public fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray>
}
