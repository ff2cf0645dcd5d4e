package io.github.tfdistill.demo

import android.content.Context
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.ModelOpener
import io.github.tfdistill.runtime.AssetSource
import io.github.tfdistill.runtime.InterpreterRunner
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.ModelRunner

/** Opens model files that lie uncompressed in the package: the CPU's are mapped, not copied. */
class AssetModels(private val context: Context) : ModelOpener {
    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner =
        when (accelerator) {
            Accelerator.GPU -> AcceleratorRunner.open(context, bundle.modelPath, bundle.signatures)
            Accelerator.CPU -> {
                val runners = InterpreterRunner.factory(threads)
                bundle.openModel(AssetSource(context.assets), runners)
            }
        }
}
