package io.github.tfdistill.text

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/**
 * The rows of words beside a file that starts at the embeddings, as `tfdistill/tflite/word_rows.py`
 * writes them: row i is codes[i] * scales[i], the same float32 as in Python.
 *
 * @property width features of a row
 */
internal class WordTable
private constructor(private val codes: ByteBuffer, private val scales: FloatArray, val width: Int) {
    val numWords: Int
        get() = scales.size

    /** The rows of ids, one behind the other. */
    fun rows(ids: IntArray): FloatArray {
        val found = FloatArray(ids.size * width)
        val row = ByteArray(width)
        val source = codes.duplicate()
        for ((at, id) in ids.withIndex()) {
            require(id in 0 until numWords) { explain("id", "0 to ${numWords - 1}", id) }
            source.position(id * width)
            source.get(row)
            for (feature in 0 until width) found[at * width + feature] = row[feature] * scales[id]
        }
        return found
    }

    @Serializable
    private class Header(
        @SerialName("__metadata__") val metadata: Metadata,
        val codes: Tensor,
        val scales: Tensor,
    )

    @Serializable private class Metadata(@SerialName("format_version") val formatVersion: String)

    @Serializable
    private class Tensor(
        val dtype: String,
        val shape: List<Int>,
        @SerialName("data_offsets") val offsets: List<Int>,
    )

    companion object {
        private const val VERSION = "1"
        private const val MOST_HEADER = 1 shl 12
        private const val MOST_SIDE = 1 shl 22
        private const val SIZE = Long.SIZE_BYTES

        /**
         * Reads the content of a file.
         *
         * @param name of the file, for messages
         * @throws BundleException if it is no such table, or one of a later version
         */
        fun parse(name: String, content: ByteBuffer): WordTable {
            val source = content.duplicate().order(ByteOrder.LITTLE_ENDIAN)
            val size = if (source.capacity() < SIZE) -1 else source.getLong(0)
            val room = source.capacity() - SIZE
            check(name, size in 1..minOf(MOST_HEADER, room), "size of the header", size)
            val text = ByteArray(size.toInt())
            source.position(SIZE)
            source.get(text)
            val header = StrictJson.decode(name, String(text, Charsets.UTF_8), Header.serializer())
            val version = header.metadata.formatVersion
            if (version != VERSION) {
                val message = explain("format_version of $name", VERSION, version)
                throw BundleException(BundleFault.NEWER, message)
            }
            val (codes, scales) = header.codes to header.scales
            val shape = codes.shape
            check(name, codes.dtype == "I8" && shape.size == 2, "codes", codes.dtype to shape)
            val right = scales.dtype == "F32" && scales.shape == shape.take(1)
            check(name, right, "scales", scales.dtype to scales.shape)
            val begin = SIZE + size.toInt()
            val rows = part(name, source, begin, codes, 1)
            val numbers = part(name, source, begin, scales, Float.SIZE_BYTES).asFloatBuffer()
            val found = FloatArray(numbers.remaining()).also { numbers.get(it) }
            check(
                name,
                found.all { it >= 0 && it.isFinite() },
                "scales",
                "others than numbers >= 0",
            )
            return WordTable(rows, found, shape[1])
        }

        private fun part(
            name: String,
            source: ByteBuffer,
            begin: Int,
            tensor: Tensor,
            bytes: Int,
        ): ByteBuffer {
            val offsets = tensor.offsets.map { it.toLong() }
            val room = (source.capacity() - begin).toLong()
            val sides = tensor.shape.map { it.toLong() }
            val possible = sides.all { it in 1..MOST_SIDE } // whose product is no overflow
            val wanted = if (possible) sides.fold(bytes.toLong(), Long::times) else -1
            val whole =
                possible &&
                    offsets.size == 2 &&
                    offsets[0] >= 0 &&
                    offsets[1] <= room &&
                    offsets[1] - offsets[0] == wanted
            check(name, whole, "bytes of ${tensor.shape} within $room", tensor.offsets)
            val copy = source.duplicate().order(ByteOrder.LITTLE_ENDIAN)
            copy.position(begin + offsets[0].toInt())
            copy.limit(begin + offsets[1].toInt())
            return copy.slice().order(ByteOrder.LITTLE_ENDIAN)
        }

        private fun check(name: String, holds: Boolean, what: String, received: Any?) {
            if (holds) return
            val remedy = "Export again."
            val message = explain("$name, $what", "those of a word table", received, remedy)
            throw BundleException(BundleFault.MALFORMED, message)
        }
    }
}
