package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.ModelRunner
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/** Who computes. */
enum class Accelerator(val delegate: String) {
    CPU("xnnpack"),
    GPU("gpu");

    /** A bundle with the file for this accelerator, or with its own where it has none. */
    fun fileOf(bundle: Bundle): Bundle =
        if (this == CPU) bundle else bundle.forDevice(delegate) ?: bundle
}

/** Why a model does not run on a GPU. */
class AcceleratorException(message: String, cause: Throwable? = null) : Exception(message, cause)

/** Opens the model file of a bundle. */
fun interface ModelOpener {
    /**
     * Opens a model; the caller closes it.
     *
     * @throws io.github.tfdistill.text.BundleException if the file is not the manifest's
     */
    fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner
}

/** Where bundles come from and what runs them; tests put others in their place. */
class Services(
    val source: FileSource,
    val models: ModelOpener,
    /** Where models run: one thread, so that one inference does not disturb another. */
    val worker: ExecutorService = Executors.newSingleThreadExecutor(),
    /** The version of the library that runs models; null if it does not tell. */
    val runtimeVersion: () -> String? = { null },
)
