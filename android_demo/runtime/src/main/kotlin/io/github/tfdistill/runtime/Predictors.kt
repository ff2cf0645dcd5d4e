package io.github.tfdistill.runtime

import android.content.res.AssetManager
import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Predictor
import java.io.FileNotFoundException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.channels.FileChannel

/**
 * Opens a bundle of the app's assets with TensorFlow Lite on the CPU; reads and checks each file.
 *
 * The first time that a process opens a file, it answers one example of golden.json, which takes
 * one inference: a version of TensorFlow Lite that computes the file otherwise than the export's
 * runtime is an error, not wrong answers.
 *
 * @param name of the bundle that `tfdistill export --android` put there
 * @param threads that an inference uses
 * @param maxError the promise that says which answers are sure, see [Predictor]
 * @param maxDisagreement in its place the agreement that says it, see [Predictor]
 * @throws io.github.tfdistill.text.BundleException if it is not there, damaged, or for a later app,
 *   or this version of TensorFlow Lite answers otherwise than the file did where it was exported
 */
public fun Predictor.Companion.open(
    assets: AssetManager,
    name: String,
    threads: Int = InterpreterRunner.THREADS,
    maxError: Double? = null,
    maxDisagreement: Double? = null,
): Predictor {
    val runners = InterpreterRunner.factory(threads)
    return open(AssetSource(assets), name, runners, maxError, maxDisagreement)
}

/** The assets of an app. */
public class AssetSource(private val assets: AssetManager) : FileSource {
    override fun open(path: String): InputStream = assets.open(path, AssetManager.ACCESS_STREAMING)

    /**
     * Maps a file that lies uncompressed in the package: nothing is copied. Another one is read.
     */
    override fun map(path: String): ByteBuffer {
        val file =
            try {
                assets.openFd(path)
            } catch (_: FileNotFoundException) { // it is compressed, or not there
                return super.map(path)
            }
        return file.use {
            it.createInputStream().use { stream ->
                stream.channel.map(FileChannel.MapMode.READ_ONLY, it.startOffset, it.declaredLength)
            }
        }
    }
}
