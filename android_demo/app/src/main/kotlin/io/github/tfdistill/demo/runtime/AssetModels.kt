package io.github.tfdistill.demo.runtime

import android.content.Context
import com.google.ai.edge.litert.Accelerator as LiteRtAccelerator
import io.github.tfdistill.demo.ModelOpener
import io.github.tfdistill.demo.benchmark.Accelerator
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.ModelRunner

/** Opens model files that lie uncompressed in the package: they are mapped, not copied. */
class AssetModels(private val context: Context) : ModelOpener {
    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner {
        if (accelerator == Accelerator.GPU)
            return AcceleratorRunner.open(context, bundle.modelPath, bundle.signatures)
        if (accelerator == Accelerator.NPU)
            return AcceleratorRunner.open(
                context,
                bundle.modelPath,
                bundle.signatures,
                LiteRtAccelerator.NPU,
            )
        val runner = InterpreterRunner(AssetSource(context.assets).map(bundle.modelPath), threads)
        try {
            bundle.checkModel(runner.signatures)
            return runner
        } catch (error: Exception) { // a BundleException is no RuntimeException
            runner.close()
            throw error
        }
    }
}
