package io.github.tfdistill.benchmark

import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.OutputStream

/**
 * The state and the result of a benchmark, each whole or not there.
 *
 * @param name of the result's file, without its suffix
 */
class ResultFiles(private val folder: File, private val name: String) {
    /** Says how far the benchmark is. */
    fun write(state: BenchmarkState) =
        replace("$name.state.json") { it.write(state.toJson().toByteArray()) }

    /** Writes the result. */
    fun write(result: BenchmarkResult) = replace("$name.json", result::write)

    /** The last state; null if there is none that can be read. */
    fun state(): BenchmarkState? = read("$name.state.json") { BenchmarkState.read(it) }

    /** The last result; null if there is none that can be read. */
    fun result(): BenchmarkResult? = read("$name.json") { BenchmarkResult.read(it) }

    private fun <T> read(file: String, parse: (String) -> T): T? =
        try {
            parse(File(folder, file).readText())
        } catch (_: IOException) {
            null
        } catch (_: IllegalArgumentException) {
            null // of another version of the app
        }

    private fun replace(file: String, write: (OutputStream) -> Unit) {
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("cannot make $folder")
        val target = File(folder, file)
        val temporary = File(folder, "$file.tmp")
        try {
            FileOutputStream(temporary).use {
                write(it)
                it.fd.sync()
            }
            if (!temporary.renameTo(target)) throw IOException("cannot write $target")
        } finally {
            temporary.delete()
        }
    }

    companion object {
        const val FOLDER = "benchmark"
    }
}
