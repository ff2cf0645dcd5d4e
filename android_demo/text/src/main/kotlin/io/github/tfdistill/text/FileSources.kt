package io.github.tfdistill.text

import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.io.RandomAccessFile
import java.net.HttpURLConnection
import java.net.URL
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** Where files are read from: the assets of an app, or a folder. */
public fun interface FileSource {
    /**
     * Opens a file.
     *
     * @param path names with "/" between
     * @throws FileNotFoundException if there is none
     */
    public fun open(path: String): InputStream

    /**
     * The content of a file as a direct buffer, which is what runtimes take: mapped where that is
     * possible, otherwise read whole.
     *
     * @throws FileNotFoundException if there is none
     */
    public fun map(path: String): ByteBuffer {
        val content = open(path).use { it.readBytes() }
        val buffer = ByteBuffer.allocateDirect(content.size).order(ByteOrder.nativeOrder())
        buffer.put(content).rewind()
        return buffer
    }
}

/** The files of a folder, in which bundles lie as `tfdistill export --android` writes them. */
public class FolderSource(private val folder: File) : FileSource {
    override fun open(path: String): InputStream = file(path).inputStream()

    override fun map(path: String): ByteBuffer =
        RandomAccessFile(file(path), "r").use {
            it.channel.map(FileChannel.MapMode.READ_ONLY, 0, it.length())
        }

    private fun file(path: String): File =
        File(folder, path).takeIf { it.isFile } ?: throw FileNotFoundException(path)
}

/**
 * The files of a web server, to download bundles from: see [DownloadedBundle].
 *
 * @param address of the folder that `tfdistill export --android` wrote, without `bundles/`; an app
 *   needs the permission INTERNET, and Android refuses addresses without TLS
 */
public class UrlSource(address: String) : FileSource {
    private val base = URL(if (address.endsWith("/")) address else "$address/")

    /**
     * Opens a file.
     *
     * @throws FileNotFoundException if the server has none, or says 403, as some do of what is not
     *   there
     * @throws IOException if the server cannot be reached or refuses
     */
    override fun open(path: String): InputStream {
        val connection = URL(base, path).openConnection()
        connection.connectTimeout = TIMEOUT_MS
        connection.readTimeout = TIMEOUT_MS
        val status = (connection as? HttpURLConnection)?.responseCode ?: HttpURLConnection.HTTP_OK
        if (status in ABSENT) throw FileNotFoundException("$base$path: HTTP $status")
        if (status != HttpURLConnection.HTTP_OK) {
            throw IOException(explain("answer for $base$path", "HTTP 200", status))
        }
        return connection.getInputStream()
    }

    private companion object {
        const val TIMEOUT_MS = 30_000
        val ABSENT =
            setOf(
                HttpURLConnection.HTTP_NOT_FOUND,
                HttpURLConnection.HTTP_GONE,
                HttpURLConnection.HTTP_FORBIDDEN,
            )
    }
}
