package io.github.tfdistill.demo.runtime

import android.content.res.AssetManager
import io.github.tfdistill.text.FileSource
import java.io.InputStream
import java.nio.MappedByteBuffer
import java.nio.channels.FileChannel

/** Reads the assets of the app. */
class AssetSource(private val assets: AssetManager) : FileSource {
    override fun open(path: String): InputStream = assets.open(path, AssetManager.ACCESS_STREAMING)

    /** Maps a file that lies uncompressed in the package: nothing is copied. */
    override fun map(path: String): MappedByteBuffer =
        assets.openFd(path).use { file ->
            file.createInputStream().use { stream ->
                stream.channel.map(
                    FileChannel.MapMode.READ_ONLY,
                    file.startOffset,
                    file.declaredLength,
                )
            }
        }
}
