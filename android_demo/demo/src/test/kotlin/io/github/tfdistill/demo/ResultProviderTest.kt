package io.github.tfdistill.demo

import android.content.ComponentName
import android.content.ContentValues
import android.net.Uri
import android.provider.OpenableColumns
import java.io.File
import java.io.FileInputStream
import java.io.FileNotFoundException
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26, 35])
class ResultProviderTest {
    private val application = RuntimeEnvironment.getApplication()
    private val folder = ResultProvider.folder(application)
    private val provider =
        Robolectric.buildContentProvider(ResultProvider::class.java).create().get()
    private val address = "content://${ResultProvider.AUTHORITY}"

    init {
        folder.mkdirs()
        File(folder, "a_result-1.json").writeText("{}\n")
        File(folder, "benchmark.state.json").writeText("state")
        File(folder, "benchmark.json.tmp").writeText("half")
        File(folder, ".json").writeText("no name")
        File(folder, "folder.json").mkdir()
        File(folder, "folder.json/inner.json").writeText("deep")
        File(application.filesDir, "secret.json").writeText("secret")
    }

    private fun read(uri: Uri) =
        String(FileInputStream(provider.openFile(uri, "r").fileDescriptor).readBytes())

    @Test
    fun `a result is read whole, with its name, size and type`() {
        val uri = ResultProvider.uriOf("a_result-1.json")
        assertEquals("$address/a_result-1.json", uri.toString())
        assertEquals("{}\n", read(uri))
        assertEquals("application/json", provider.getType(uri))
        val all = checkNotNull(provider.query(uri, null, null, null, null))
        assertTrue(all.moveToFirst())
        assertEquals("a_result-1.json", all.getString(all.getColumnIndex("_display_name")))
        assertEquals(3L, all.getLong(all.getColumnIndex("_size")))
        all.close()
        val columns = arrayOf("_data", OpenableColumns.SIZE)
        val some = checkNotNull(provider.query(uri, columns, null, null, null))
        assertArrayEquals(arrayOf(OpenableColumns.SIZE), some.columnNames)
        some.close()
    }

    @Test
    fun `nothing beside results can be named`() {
        val names =
            listOf(
                "",
                "/",
                "/../secret.json",
                "/..%2Fsecret.json",
                "/%2e%2e%2fsecret.json",
                "/./../secret.json",
                "/measured/a_result-1.json",
                "/folder.json",
                "/folder.json/inner.json",
                "/folder.json%2Finner.json",
                "/benchmark.state.json",
                "/benchmark.json.tmp",
                "/.json",
                "/a_result-1.json%00",
                "/a_result-1.json%0A",
                "/%2Fetc%2Fhosts.json",
                "/missing.json",
            )
        for (name in names) {
            val uri = Uri.parse(address + name)
            assertThrows(name, FileNotFoundException::class.java) { provider.openFile(uri, "r") }
            assertNull(name, provider.query(uri, null, null, null, null))
        }
        val climbing = ResultProvider.uriOf("../secret.json")
        assertThrows(FileNotFoundException::class.java) { provider.openFile(climbing, "r") }
    }

    @Test
    fun `nothing can be written, changed or deleted`() {
        val uri = ResultProvider.uriOf("a_result-1.json")
        for (mode in listOf("w", "rw", "rwt", "wa", "wt", "", "R")) {
            assertThrows(mode, SecurityException::class.java) { provider.openFile(uri, mode) }
        }
        val refused = UnsupportedOperationException::class.java
        assertThrows(refused) { provider.insert(uri, ContentValues()) }
        assertThrows(refused) { provider.update(uri, ContentValues(), null, null) }
        assertThrows(refused) { provider.delete(uri, null, null) }
        assertEquals("{}\n", read(uri))
    }

    @Test
    fun `other apps reach it by a grant only`() {
        val name = ComponentName(application, ResultProvider::class.java)
        val info = application.packageManager.getProviderInfo(name, 0)
        assertFalse(info.exported)
        assertTrue(info.grantUriPermissions)
        assertEquals(ResultProvider.AUTHORITY, info.authority)
    }
}
