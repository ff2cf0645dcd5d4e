package io.github.tfdistill.demo.runtime

import android.content.res.AssetManager
import io.github.tfdistill.demo.core.FileSource
import java.io.InputStream

/** Reads the assets of the app. */
class AssetSource(private val assets: AssetManager) : FileSource {
    override fun open(path: String): InputStream = assets.open(path, AssetManager.ACCESS_STREAMING)
}
