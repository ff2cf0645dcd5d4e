// The part of LiteRT 2's interface that the app uses: names and types alone, so that the app's code
// can be compiled where the library is not to be had. ADR 0012 says what they were compared with.
package com.google.ai.edge.litert

import android.content.res.AssetManager

enum class Accelerator {
    NONE,
    CPU,
    GPU,
}

/** What LiteRT throws; a message, and a code that the app does not use. */
class LiteRtException(message: String) : Exception(message)

abstract class JniHandle internal constructor(internal val handle: Long) : AutoCloseable {
    private var isClosed = false

    final override fun close() {
        if (!isClosed) StandIn.get().close(handle)
        isClosed = true
    }

    internal fun opened(): Long {
        check(!isClosed) { "The handle has been destroyed." }
        return handle
    }
}

class Environment private constructor(handle: Long) : JniHandle(handle) {
    fun getAvailableAccelerators(): Set<Accelerator> = StandIn.get().accelerators(opened())

    companion object {
        fun create(): Environment = Environment(StandIn.get().environment())
    }
}

class TensorBuffer internal constructor(handle: Long) : JniHandle(handle) {
    fun writeInt(data: IntArray) = StandIn.get().write(opened(), data)

    fun readFloat(): FloatArray = StandIn.get().read(opened())
}

class CompiledModel private constructor(handle: Long) : JniHandle(handle) {
    class Options(internal val accelerators: Set<Accelerator>) {
        constructor(vararg accelerators: Accelerator) : this(setOf(*accelerators))
    }

    fun createInputBuffer(inputName: String, signature: String): TensorBuffer =
        TensorBuffer(StandIn.get().buffer(opened(), true, inputName, signature))

    fun createOutputBuffer(outputName: String, signature: String): TensorBuffer =
        TensorBuffer(StandIn.get().buffer(opened(), false, outputName, signature))

    fun run(
        inputs: Map<String, TensorBuffer>,
        outputs: Map<String, TensorBuffer>,
        signature: String,
    ) =
        StandIn.get()
            .run(
                opened(),
                inputs.mapValues { it.value.opened() },
                outputs.mapValues { it.value.opened() },
                signature,
            )

    companion object {
        fun create(
            assetManager: AssetManager,
            assetName: String,
            options: Options,
            optionalEnv: Environment,
        ): CompiledModel {
            checkNotNull(assetManager)
            val environment = optionalEnv.opened()
            return CompiledModel(StandIn.get().model(environment, assetName, options.accelerators))
        }
    }
}
