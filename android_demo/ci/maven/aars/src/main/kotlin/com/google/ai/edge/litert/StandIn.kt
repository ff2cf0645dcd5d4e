package com.google.ai.edge.litert

/**
 * What the declarations of this folder call. LiteRT itself has nothing of the kind: outside of
 * tests there is no stand-in, and every call says that there is no such runtime in this package.
 */
interface StandIn {
    /** Opens an environment; returns its handle, as do the next two. */
    fun environment(): Long

    fun model(environment: Long, asset: String, accelerators: Set<Accelerator>): Long

    fun buffer(model: Long, isInput: Boolean, name: String, signature: String?): Long

    fun accelerators(environment: Long): Set<Accelerator>

    fun write(buffer: Long, values: IntArray)

    fun read(buffer: Long): FloatArray

    fun run(model: Long, inputs: Map<String, Long>, outputs: Map<String, Long>, signature: String?)

    fun close(handle: Long)

    companion object {
        /** Set by a test for as long as it runs. */
        @Volatile var current: StandIn? = null

        internal fun get(): StandIn =
            current
                ?: throw UnsupportedOperationException(
                    "This package was built without LiteRT 2: it has no runtime for the GPU. The " +
                        "one that Android Studio builds has it."
                )
    }
}
