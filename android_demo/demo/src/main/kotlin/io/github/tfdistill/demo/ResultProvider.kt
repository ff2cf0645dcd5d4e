package io.github.tfdistill.demo

import android.content.ContentProvider
import android.content.ContentValues
import android.content.Context
import android.database.Cursor
import android.database.MatrixCursor
import android.net.Uri
import android.os.ParcelFileDescriptor
import android.provider.OpenableColumns
import java.io.File
import java.io.FileNotFoundException

/**
 * Lets another app read a result that was shared with it.
 *
 * It is not exported: only an app that was granted one of its addresses gets anywhere, and it reads
 * that one file. Beside results it serves nothing, and it writes nothing.
 */
class ResultProvider : ContentProvider() {
    override fun onCreate(): Boolean = true

    override fun getType(uri: Uri): String = MIME_TYPE

    /**
     * Opens a result.
     *
     * @param mode "r"
     * @throws FileNotFoundException if the address is not that of a result
     * @throws SecurityException if the mode is another one
     */
    override fun openFile(uri: Uri, mode: String): ParcelFileDescriptor {
        if (mode != "r") throw SecurityException("mode: expected r, received $mode.")
        val file = file(uri) ?: throw FileNotFoundException("$uri: expected a result.")
        return ParcelFileDescriptor.open(file, ParcelFileDescriptor.MODE_READ_ONLY)
    }

    /** Name and size of a result; null if the address is not that of one. */
    override fun query(
        uri: Uri,
        projection: Array<out String>?,
        selection: String?,
        selectionArgs: Array<out String>?,
        sortOrder: String?,
    ): Cursor? {
        val file = file(uri) ?: return null
        val values =
            mapOf(OpenableColumns.DISPLAY_NAME to file.name, OpenableColumns.SIZE to file.length())
        val columns = projection?.filter { it in values } ?: values.keys.toList()
        return MatrixCursor(columns.toTypedArray(), 1).apply { addRow(columns.map { values[it] }) }
    }

    override fun insert(uri: Uri, values: ContentValues?): Uri? = refuse()

    override fun update(
        uri: Uri,
        values: ContentValues?,
        selection: String?,
        selectionArgs: Array<out String>?,
    ): Int = refuse()

    override fun delete(uri: Uri, selection: String?, selectionArgs: Array<out String>?): Int =
        refuse()

    private fun refuse(): Nothing = throw UnsupportedOperationException("results are only read")

    /** The file that an address names: one step below the folder, by a name without any path. */
    private fun file(uri: Uri): File? {
        val name = uri.pathSegments.singleOrNull()?.takeIf { NAME.matches(it) } ?: return null
        return File(folder(checkNotNull(context)), name).takeIf { it.isFile }
    }

    companion object {
        const val AUTHORITY = "io.github.tfdistill.demo.results"
        const val MIME_TYPE = "application/json"
        private val NAME = Regex("[A-Za-z0-9_-]+\\.json")

        /** Where results lie. */
        fun folder(context: Context): File = File(context.filesDir, "measured")

        /** The address of a result. */
        fun uriOf(name: String): Uri =
            Uri.Builder().scheme("content").authority(AUTHORITY).appendPath(name).build()
    }
}
