package io.github.tfdistill.demo.runtime

import android.content.res.AssetManager
import io.github.tfdistill.demo.ModelOpener
import io.github.tfdistill.demo.benchmark.Accelerator
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.ModelRunner

/** Opens model files that lie uncompressed in the package: they are mapped, not copied. */
class AssetModels(private val assets: AssetManager) : ModelOpener {
    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner {
        if (accelerator == Accelerator.GPU)
            return GpuRunner.open(assets, bundle.modelPath, bundle.signatures)
        val runner = InterpreterRunner(AssetSource(assets).map(bundle.modelPath), threads)
        try {
            bundle.checkModel(runner.signatures)
            return runner
        } catch (error: Exception) { // a BundleException is no RuntimeException
            runner.close()
            throw error
        }
    }
}
