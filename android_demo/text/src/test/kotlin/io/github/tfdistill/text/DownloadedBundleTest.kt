package io.github.tfdistill.text

import com.sun.net.httpserver.HttpServer
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.net.InetSocketAddress
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder

/** Each fault is planted once, and the version before still answers. */
class DownloadedBundleTest {
    @get:Rule val temporary = TemporaryFolder()
    private val name = "pairs-float32"
    private val card = "bundles/$name/model.json"
    private val text = GoldenExamples.read(Bundles(Toys).open(name), Toys).texts.first()
    private val folder by lazy { File(temporary.root, "models") }
    private lateinit var server: Copy

    /** What a runtime makes of an output of a model, whose last byte is that of its version. */
    private var answer: (version: Int, output: Float) -> Float = { _, output -> output }

    private fun runners(name: String) = RunnerFactory { model ->
        val version = model[model.capacity() - 1].toInt()
        val bundle = Bundles(Toys).open(name)
        Replay(bundle, Toys) { answer(version, it) }
    }

    @Before
    fun serve() {
        server = Copy(temporary.newFolder("server"))
        publish(1)
        assertTrue(downloads().update(server))
    }

    private fun downloads(folder: File = this.folder, name: String = this.name) =
        DownloadedBundle(folder, name, runners(name))

    /** A version of its own: other bytes of the model, a day later than the one before. */
    private fun publish(version: Int, name: String = this.name) {
        val path = "bundles/$name/model.tflite"
        val old = server.open(path).readBytes()
        val new = old + version.toByte()
        server.put(path, new)
        server.editManifest(name) {
            it.replace(sha256(old), sha256(new))
                .replace("\"size_bytes\": ${old.size}", "\"size_bytes\": ${new.size}")
                .replace(Regex("2026-11-\\d\\d"), "2026-11-%02d".format(20 + version))
        }
        if (name != near) return
        val index = server.text(search).replace(sha256(old), sha256(new)).toByteArray()
        if ("\"search\"" in server.text("bundles/index.json")) server.putListed(search, index)
        else server.put(search, index)
    }

    private val near = "vectors-float32"
    private val search = "bundles/$near/search/index.json"

    /** The versions of the model and of the index that a download gives, 0 for no index. */
    private fun pair(downloaded: DownloadedBundle, open: Boolean = true): Pair<Int, Int> {
        var model = 0
        answer = { version, output -> output.also { model = version } }
        if (open) checkNotNull(downloaded.open()).use { it.predict(questions.first) }
        val index =
            try {
                checkNotNull(downloaded.openIndex()).card.model.sha256
            } catch (error: BundleException) {
                assertEquals(error.message, BundleFault.MISSING, error.fault)
                null
            }
        return model to 1 + digests.indexOf(index)
    }

    private val questions by lazy {
        GoldenExamples.read(Bundles(Toys).open(near), Toys).texts.first()
    }
    private val digests by lazy {
        val content = Toys.open("bundles/$near/model.tflite").readBytes()
        (1..4).runningFold(content) { old, version -> old + version.toByte() }.drop(1).map(::sha256)
    }

    /** Downloads of the sentence encoder, of which versions 1 to 2 are there and in use. */
    private fun encoder(versions: IntRange = 1..1): DownloadedBundle {
        val downloaded = downloads(name = near)
        for (version in versions) {
            publish(version, near)
            assertTrue(downloaded.update(server))
        }
        assertEquals(versions.last to versions.last, pair(downloaded))
        return downloaded
    }

    private val refusing = FileSource { // once, a server without listing answers so
        if (it == search) throw FileNotFoundException("$it: HTTP 403") else server.open(it)
    }

    /** The version that answers; what was a test's change of the outputs is over. */
    private fun version(folder: File = this.folder): Int {
        var opened = 0
        answer = { version, output -> output.also { opened = version } }
        checkNotNull(downloads(folder).open()).use { it.predict(text.first, text.second) }
        return opened
    }

    private fun refused(fault: BundleFault, vararg words: String, source: FileSource = server) {
        val error = assertThrows(BundleException::class.java) { downloads().update(source) }
        assertEquals(error.message, fault, error.fault)
        for (word in words) assertTrue("$word in ${error.message}", word in error.message.orEmpty())
        assertUnchanged()
    }

    private fun assertUnchanged() {
        assertEquals(1, version())
        val names = File(folder, name).list().orEmpty().filterNot(Regex("[0-9a-f]{64}")::matches)
        assertEquals(listOf("current"), names)
    }

    @Test
    fun `a version is used once its files and answers were checked, and only once loaded`() {
        assertEquals(1, version())
        assertFalse(downloads().update(server))
        publish(2)
        assertTrue(downloads().update(server))
        assertEquals(2, version())
        publish(3)
        assertTrue(downloads().update(server))
        assertEquals(3, version())
        assertEquals(3, File(folder, name).list()?.size) // two versions, and which is in use
        assertNull(downloads(temporary.newFolder()).open())
    }

    @Test
    fun `a truncated file, one that is too long and one with another digest are refused`() {
        publish(2)
        val path = "bundles/$name/model.tflite"
        fun changed(change: (ByteArray) -> ByteArray) = FileSource {
            if (it == path) change(server.open(it).readBytes()).inputStream() else server.open(it)
        }
        refused(BundleFault.TAMPERED, path, source = changed { it.copyOf(it.size - 1) })
        refused(BundleFault.TAMPERED, "more", source = changed { it + 0.toByte() })
        val flipped = changed { it.apply { this[size / 2]++ } }
        refused(BundleFault.TAMPERED, path, source = flipped)
    }

    @Test
    fun `a file without an end does not fill the storage`() {
        publish(2)
        val endless =
            object : InputStream() {
                override fun read() = 0

                override fun read(buffer: ByteArray, offset: Int, length: Int) = length
            }
        for (path in listOf("bundles/index.json", card, "bundles/$name/model.tflite")) {
            val source = FileSource { if (it == path) endless else server.open(it) }
            refused(BundleFault.TAMPERED, path, source = source)
        }
    }

    @Test
    fun `an older version and one for a later app are refused`() {
        publish(2)
        server.editManifest(name) { it.replace("2026-11-22", "2026-11-20") }
        refused(BundleFault.UNSUITABLE, "created after 2026-11-21")
        server.editManifest(name) { it.replace("\"format_version\": 1", "\"format_version\": 2") }
        refused(BundleFault.NEWER, "format_version")
    }

    @Test
    fun `names that lead out of the folder are refused before anything is written there`() {
        val outside = File(temporary.root, "outside")
        for (path in listOf("../../../outside", "/${outside.path}", "..\\\\outside")) {
            publish(2)
            server.editIndex { it.replace("\"folder\": \"$name\"", "\"folder\": \"$path\"") }
            refused(BundleFault.UNSUITABLE, "folder of a bundle")
            serveAgain()
            publish(2)
            server.editManifest(name) { it.replace("\"model.tflite\"", "\"$path\"") }
            refused(BundleFault.UNSUITABLE, "name of a file")
            serveAgain()
        }
        assertFalse(outside.exists())
        for (other in listOf("..", "../$name", "a/b", "")) {
            assertThrows(BundleException::class.java) { downloads(name = other) }
        }
    }

    /** The server as it was with version 1. */
    private fun serveAgain() {
        server = Copy(temporary.newFolder())
        publish(1)
    }

    @Test
    fun `answers that are not the golden ones keep the version before`() {
        publish(2)
        answer = { version, output -> if (version == 2) 1 - output else output }
        refused(BundleFault.UNSUITABLE, "answers of $name on this device")
        answer = { version, output -> if (version == 2) Float.NaN else output }
        refused(BundleFault.UNSUITABLE, "a finite number")
        assertTrue(downloads().update(server)) // it answers well by now
        assertEquals(2, version())
    }

    @Test
    fun `a server that fails at any file leaves the version before`() {
        publish(2)
        var files = 0
        downloads(temporary.newFolder()).update({ server.open(it).also { files++ } })
        assertTrue("$files", files > 5)
        for (number in 0 until files) {
            var opened = 0
            val source = FileSource {
                if (opened++ == number) throw IOException("no route to host")
                server.open(it)
            }
            assertThrows(IOException::class.java) { downloads().update(source) }
            assertUnchanged()
        }
        assertTrue(downloads().update(server))
    }

    @Test
    fun `a process that ends at any file finds the version before, and can download again`() {
        publish(2)
        val moments = ArrayList<File>()
        val source = FileSource {
            moments += temporary.newFolder().also { copy -> folder.copyRecursively(copy, true) }
            server.open(it)
        }
        assertTrue(downloads().update(source))
        assertTrue(moments.size > 5)
        for (moment in moments) {
            assertEquals(1, version(moment))
            assertTrue(downloads(moment).update(server))
            assertEquals(2, version(moment))
        }
    }

    @Test
    fun `a version that ends the process is not tried again by itself`() {
        publish(2)
        val moment = temporary.newFolder()
        answer = { _, output ->
            output.also { if (moment.list()?.size == 0) folder.copyRecursively(moment, true) }
        }
        assertTrue(downloads().update(server))
        assertEquals(1, version(moment)) // as the next process finds it
        val error = assertThrows(BundleException::class.java) { downloads(moment).update(server) }
        assertTrue(error.message, "during whose check the app ended" in error.message.orEmpty())
        assertEquals(1, version(moment))
        assertTrue(downloads(moment).update(server, retry = true))
        assertEquals(2, version(moment))
    }

    @Test
    fun `files that are damaged later give way to the version before, and are downloaded again`() {
        publish(2)
        assertTrue(downloads().update(server))
        val path = "${File(folder, "$name/current").readLines().first()}/bundles/$name/vocab.txt"
        File(folder, "$name/$path").appendText("x")
        assertEquals(1, version())
        assertTrue(downloads().update(server))
        assertEquals(2, version())
        folder.walk().filter { it.name == "model.tflite" }.forEach { it.delete() }
        assertThrows(BundleException::class.java) { downloads().open() }
    }

    @Test
    fun `a bundle for searching brings its index of texts`() {
        val downloaded = downloads(name = near)
        assertTrue(downloaded.update(server))
        val version = File(folder, "$near/current").readText()
        val bundles = Bundles(FolderSource(File(folder, "$near/$version")))
        assertEquals(listOf(near), bundles.searchable())
        assertEquals(60, bundles.openIndex(bundles.open(near)).card.count)
        assertEquals(60, checkNotNull(downloaded.openIndex()).card.count)
        assertFalse(downloaded.update(server))

        val texts = server.open(search).readBytes() + '\n'.code.toByte() // of another day
        server.putListed(search, texts)
        assertTrue(downloaded.update(server))
        assertFalse(downloaded.update(server))
        assertNull(downloads(temporary.newFolder(), near).openIndex())
        val error = assertThrows(BundleException::class.java) { downloads().openIndex() }
        assertEquals(BundleFault.MISSING, error.fault)
    }

    @Test
    fun `a model without its index has none, and not that of the model before`() {
        encoder()
        publish(2, near)
        server.recordSearch("[]")
        assertTrue(downloads(name = near).update(server))
        assertEquals(2 to 0, pair(downloads(name = near)))
        assertFalse(downloads(name = near).update(server))
    }

    @Test
    fun `a damaged version gives way with its index or its model, and is downloaded again`() {
        val files = listOf("vocab.txt", "model.tflite", "search/index.json", "search/texts.jsonl")
        for (file in files + "search/vectors.int8") {
            serveAgain()
            File(folder, near).deleteRecursively()
            encoder(1..2)
            val newest = File(folder, "$near/current").readLines().first()
            for (damage in listOf<(File) -> Unit>({ it.appendText("x") }, { it.delete() })) {
                damage(File(folder, "$near/$newest/bundles/$near/$file"))
                assertEquals(file, 1 to 1, pair(downloads(name = near)))
                assertEquals(file, 0 to 1, pair(downloads(name = near), open = false))
                assertTrue(downloads(name = near).update(server))
                assertEquals(file, 2 to 2, pair(downloads(name = near)))
            }
        }
    }

    @Test
    fun `a server that refuses the index this once changes nothing`() {
        encoder()
        publish(2, near)
        assertThrows(FileNotFoundException::class.java) { downloads(name = near).update(refusing) }
        assertEquals(1 to 1, pair(downloads(name = near)))
        val index = server.open(search).readBytes()
        server.put(search, Toys.open(search).readBytes()) // of a model before, as a cache may have
        assertThrows(BundleException::class.java) { downloads(name = near).update(server) }
        assertEquals(1 to 1, pair(downloads(name = near)))
        server.put(search, index)
        publish(3, near)
        assertTrue(downloads(name = near).update(server))
        assertEquals(3 to 3, pair(downloads(name = near)))
    }

    @Test
    fun `bundles without a record of their index update, but never lose one`() {
        encoder()
        server.recordSearch(null)
        assertFalse(downloads(name = near).update(server)) // the same version, recorded or not
        publish(2, near)
        val error =
            assertThrows(BundleException::class.java) { downloads(name = near).update(refusing) }
        assertTrue(error.message, "index of texts of $near: expected one" in "${error.message}")
        assertEquals(1 to 1, pair(downloads(name = near)))
        assertTrue(downloads(name = near).update(server))
        assertEquals(2 to 2, pair(downloads(name = near)))
        assertEquals(0 to 2, pair(downloads(name = near), open = false))
        publish(2) // one that never had an index
        assertTrue(downloads().update(server))
        assertEquals(2, version())
        assertTrue(downloads(temporary.newFolder(), near).update(refusing)) // nothing to lose
    }

    @Test
    fun `an index belongs to the model that is open, until another one is opened`() {
        val downloaded = encoder()
        for (version in 2..4) {
            publish(version, near)
            assertTrue(downloaded.update(server))
            assertEquals(0 to 1, pair(downloaded, open = false))
        }
        assertEquals(4 to 4, pair(downloaded))
        assertEquals(0 to 4, pair(downloads(name = near), open = false))
    }

    @Test
    fun `an interrupted thread gets an IOException, and no other version`() {
        publish(2)
        val source = FileSource {
            if (it.endsWith("vocab.txt")) Thread.currentThread().interrupt()
            server.open(it)
        }
        assertThrows(IOException::class.java) { downloads().update(source) }
        assertTrue(Thread.interrupted())
        assertUnchanged()
        assertTrue(downloads().update(server))
        Thread.currentThread().interrupt()
        assertThrows(IOException::class.java) { downloads().open() }
        assertTrue(Thread.interrupted())
        assertEquals(2, version())
    }

    @Test
    fun `a web server is asked by path, and its refusals are errors`() {
        val http = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
        var status = 200
        http.createContext("/app/") { exchange ->
            val content = runCatching { server.open(exchange.requestURI.path.drop(5)).readBytes() }
            val code = if (content.isSuccess) status else 403 // as storage without listing says
            exchange.sendResponseHeaders(code, 0)
            exchange.responseBody.use { it.write(content.getOrDefault(ByteArray(0))) }
        }
        http.start()
        try {
            publish(2)
            val source = UrlSource("http://127.0.0.1:${http.address.port}/app")
            assertTrue(downloads().update(source))
            assertEquals(2, version())
            assertThrows(FileNotFoundException::class.java) { source.open("bundles/none") }
            status = 500
            val error = assertThrows(IOException::class.java) { downloads().update(source) }
            assertTrue(error.message, "received 500" in error.message.orEmpty())
        } finally {
            http.stop(0)
        }
    }
}
