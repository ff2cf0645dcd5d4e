package io.github.tfdistill.demo.runtime

import android.content.res.AssetManager
import io.github.tfdistill.demo.ModelOpener
import io.github.tfdistill.demo.core.Accelerator
import io.github.tfdistill.demo.core.Bundle
import io.github.tfdistill.demo.core.ModelRunner
import java.nio.MappedByteBuffer
import java.nio.channels.FileChannel

/** Opens model files that lie uncompressed in the package: they are mapped, not copied. */
class AssetModels(private val assets: AssetManager) : ModelOpener {
    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner {
        if (accelerator == Accelerator.GPU) throw UnsupportedOperationException(NO_GPU)
        val runner = InterpreterRunner(map(bundle.modelPath), threads)
        try {
            bundle.checkModel(runner.signatures)
            return runner
        } catch (error: RuntimeException) {
            runner.close()
            throw error
        }
    }

    private fun map(path: String): MappedByteBuffer =
        assets.openFd(path).use { file ->
            file.createInputStream().use { stream ->
                stream.channel.map(
                    FileChannel.MapMode.READ_ONLY,
                    file.startOffset,
                    file.declaredLength,
                )
            }
        }

    companion object {
        /** Why there is no GPU, and where there is one. */
        const val NO_GPU =
            "accelerator: expected cpu, received gpu. This app does not offer the GPU: LiteRT has " +
                "it behind another interface (CompiledModel), and a GPU may answer differently. " +
                "`tfdistill benchmark --device adb --delegates gpu` measures it, and its answers."
    }
}
