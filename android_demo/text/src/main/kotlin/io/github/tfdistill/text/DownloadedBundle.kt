package io.github.tfdistill.text

import java.io.File
import java.io.FileNotFoundException
import java.io.FileOutputStream
import java.io.IOException
import java.security.MessageDigest
import java.time.OffsetDateTime
import java.time.format.DateTimeParseException

/**
 * A bundle that an app downloads: the last version of it that answered well on this device.
 *
 * A new version is used only after each of its files had its SHA-256 and the model gave its golden
 * answers here. Until then, and whenever anything fails, the version before stays in use. An index
 * of texts is a part of its version: it is downloaded, checked and given up with its model. Used by
 * one thread at a time.
 *
 * @param folder of the app's own files, into which nothing else writes
 * @param name of the bundle in the index of the server
 * @param runners opens its model
 */
public class DownloadedBundle(
    folder: File,
    private val name: String,
    private val runners: RunnerFactory,
) {
    private val home = File(folder, name)
    private val current = File(home, "current") // names of versions, a line each, the newest first
    private val trial = File(home, "trial") // name of the version whose answers are being checked
    private val download = File(home, "download")
    private var opened: String? = null // the version that `open` returned last

    init {
        ManifestChecks.checkName("name of a bundle", name)
    }

    /**
     * Opens the version in use. Where its files, those of its index too, were damaged since, the
     * version before is used.
     *
     * @param maxError see [Predictor]
     * @param maxDisagreement see [Predictor]
     * @return null if no version was downloaded yet
     * @throws BundleException if all versions are damaged
     * @throws IOException if the thread is interrupted
     * @throws IllegalArgumentException if the file does not promise such an error
     */
    public fun open(maxError: Double? = null, maxDisagreement: Double? = null): Predictor? {
        var fault: BundleException? = null
        for (version in versions()) {
            try {
                val bundle = verified(version)
                val predictor = bundle.open(source(version), runners, maxError, maxDisagreement)
                opened = version
                return predictor
            } catch (error: BundleException) {
                fault = fault ?: error
            }
        }
        if (fault != null) throw fault
        return null
    }

    /**
     * Opens the index of texts that belongs to the model that [open] returned last, whatever
     * [update] did since; if there was none, to the one that it would return.
     *
     * @return null if no version was downloaded yet
     * @throws BundleException if no index belongs to this model, or it was damaged since
     */
    public fun openIndex(): TextIndex? {
        if (opened == null) open()?.close()
        val bundles = Bundles(source(opened ?: return null))
        return bundles.openIndex(bundles.open(name))
    }

    /**
     * Downloads the version of a server if it is another one, checks it and puts it to use.
     *
     * @param server has `bundles/index.json`, such as a [UrlSource]
     * @param retry also tries a version during whose check the app ended
     * @return whether there is a new version, which [open] opens
     * @throws BundleException if it is damaged, older than the version in use, for a later app, or
     *   answers its golden examples otherwise
     * @throws IOException if the server or the storage fails, or the thread is interrupted
     */
    public fun update(server: FileSource, retry: Boolean = false): Boolean {
        remove(download)
        try {
            val entry = copyIndex(server)
            val latest = versions().firstOrNull { whole(it) != null }
            val before = latest?.let(::whole)
            val hadIndex = before != null && Bundles(source(latest)).hasIndex(before.entry)
            val version = versionOf(server, entry, hadIndex)
            if (version == latest) return false
            if (!retry && trial.isFile && trial.readText() == version) {
                val received = "$version, during whose check the app ended"
                val remedy = "Publish another version, or call update with retry = true."
                throw unsuitable("version of $name", "one that was not tried", received, remedy)
            }
            val bundle = copyFiles(server, entry)
            if (before != null && created(bundle) < created(before)) {
                val expected = "one created after ${before.manifest.created}"
                throw unsuitable("version of $name", expected, bundle.manifest.created)
            }
            checkAnswers(bundle, version)
            use(version)
            return true
        } finally {
            remove(download)
        }
    }

    /** Downloads the index, and leaves this bundle alone in it. */
    private fun copyIndex(server: FileSource): IndexEntry {
        val path = "${Bundles.FOLDER}/${Bundles.INDEX}"
        copy(server, path, MOST_INDEX_BYTES)
        val index = Bundles(FolderSource(download)).index()
        val entry = index.bundles[name]
        if (entry == null) {
            val message = explain("bundle", "one of ${index.bundles.keys}", name)
            throw BundleException(BundleFault.MISSING, message)
        }
        val alone = index.copy(bundles = mapOf(name to entry))
        val content = BundleJson.json.encodeToString(BundleIndex.serializer(), alone)
        replace(File(download, path), content)
        return entry
    }

    /**
     * Downloads what the index of texts says of itself, if one belongs to the bundle; names both
     * together.
     *
     * Earlier versions of tfdistill did not record whether one does. There a server may have none
     * only if the version in use has none: it may have been forgotten, or refused this once.
     */
    private fun versionOf(server: FileSource, entry: IndexEntry, hadIndex: Boolean): String {
        val folder = searchFolder(entry)
        val record = entry.search?.firstOrNull()
        val path = "$folder/${record?.file ?: TextIndex.CARD}"
        val none = entry.manifest.sha256
        when {
            record != null -> copy(server, folder, record)
            entry.search != null || entry.device != null -> return none
            else ->
                try {
                    copy(server, path, MOST_INDEX_BYTES)
                } catch (_: FileNotFoundException) {
                    if (!hadIndex) return none
                    val expected = "one, as the version in use has"
                    val remedy = "Export the bundle again: that records whether it has one."
                    throw unsuitable("index of texts of $name", expected, "none", remedy)
                }
        }
        val digest = MessageDigest.getInstance("SHA-256")
        digest.update(entry.manifest.sha256.toByteArray())
        return Bundles.hex(digest.digest(File(download, path).readBytes()))
    }

    private fun searchFolder(entry: IndexEntry) =
        "${Bundles.FOLDER}/${entry.folder}/${TextIndex.FOLDER}"

    /** Downloads all files of the bundle, and checks that they are the ones of its manifest. */
    private fun copyFiles(server: FileSource, entry: IndexEntry): Bundle {
        val folder = "${Bundles.FOLDER}/${entry.folder}"
        val bundles = Bundles(FolderSource(download))
        copy(server, folder, entry.manifest)
        val card = bundles.manifest(name, entry)
        val variants = listOf(card) + card.variants.keys.mapNotNull(card::forDevice)
        val records =
            listOf(card.tokenizer?.vocab, card.labelsFile, entry.tokens) +
                variants.flatMap { listOf(it.goldenFile, it.model) }
        for (record in records.filterNotNull().distinctBy { it.file }) copy(server, folder, record)
        val bundle = bundles.open(name)
        if (bundles.hasIndex(entry)) {
            val texts = bundles.indexCard(bundle)
            for (record in listOf(texts.vectors, texts.texts)) {
                copy(server, searchFolder(entry), record)
            }
            bundles.openIndex(bundle)
        }
        return bundle
    }

    private fun copy(server: FileSource, folder: String, record: FileRecord) {
        val path = "$folder/${record.file}"
        val size = copy(server, path, record.sizeBytes)
        if (size == record.sizeBytes) return
        val message = explain("bytes of $path", "${record.sizeBytes}", size)
        throw BundleException(BundleFault.TAMPERED, message)
    }

    /** Downloads a file, but no more than so many bytes of it; returns its size. */
    private fun copy(server: FileSource, path: String, mostBytes: Long): Long {
        val target = File(download, path)
        makeFolder(checkNotNull(target.parentFile))
        var size = 0L
        server.open(path).use { stream ->
            FileOutputStream(target).use { file ->
                val buffer = ByteArray(BUFFER_BYTES)
                while (true) {
                    val count = stream.read(buffer)
                    if (count < 0) break
                    size += count
                    if (size > mostBytes) {
                        val message = explain("bytes of $path", "at most $mostBytes", "more")
                        throw BundleException(BundleFault.TAMPERED, message)
                    }
                    file.write(buffer, 0, count)
                }
                file.fd.sync()
            }
        }
        return size
    }

    private fun checkAnswers(bundle: Bundle, version: String) {
        val source = FolderSource(download)
        val golden = GoldenExamples.read(bundle, source)
        replace(trial, version) // a driver or a runtime may end the process here
        val parity =
            try {
                bundle.openModel(source, runners).use { AnswerCheck(bundle, golden).parity(it) }
            } finally {
                trial.delete()
            }
        if (!parity.passed) {
            throw BundleException(BundleFault.UNSUITABLE, parity.faults().joinToString("\n"))
        }
    }

    /** Puts the download to use; the last version before it stays for the case of damage. */
    private fun use(version: String) {
        val target = File(home, version)
        remove(target)
        if (!download.renameTo(target)) throw IOException("cannot write $target")
        val versions = listOf(version) + versions().filter { it != version && whole(it) != null }
        val wanted = versions.take(2)
        replace(current, wanted.joinToString("\n"))
        val unused =
            home.listFiles { file -> VERSION.matches(file.name) && file.name !in wanted + opened }
        unused.orEmpty().forEach(::remove)
    }

    private fun versions(): List<String> =
        if (current.isFile) current.readLines().filter(VERSION::matches) else emptyList()

    private fun source(version: String) = FolderSource(File(home, version))

    /** Checks each file of a version, those of its index of texts too. */
    private fun verified(version: String): Bundle {
        val bundles = Bundles(source(version))
        return bundles.open(name).also { if (bundles.hasIndex(it.entry)) bundles.openIndex(it) }
    }

    /** A version of which every file is there as it was written; null if it is damaged. */
    private fun whole(version: String): Bundle? =
        try {
            verified(version)
        } catch (_: BundleException) {
            null
        }

    private fun created(bundle: Bundle): OffsetDateTime =
        try {
            OffsetDateTime.parse(bundle.manifest.created)
        } catch (error: DateTimeParseException) {
            val message = explain("created of $name", "ISO 8601", bundle.manifest.created)
            throw BundleException(BundleFault.MALFORMED, message, error)
        }

    private fun unsuitable(what: String, expected: String, received: Any?, remedy: String = "") =
        BundleException(BundleFault.UNSUITABLE, explain(what, expected, received, remedy))

    /** Writes a file whole or not at all. */
    private fun replace(target: File, content: String) {
        makeFolder(checkNotNull(target.parentFile))
        val temporary = File(target.path + ".tmp")
        FileOutputStream(temporary).use {
            it.write(content.toByteArray())
            it.fd.sync()
        }
        if (!temporary.renameTo(target)) throw IOException("cannot write $target")
    }

    private fun makeFolder(folder: File) {
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("cannot make $folder")
    }

    private fun remove(file: File) {
        if (file.exists() && !file.deleteRecursively()) throw IOException("cannot delete $file")
    }

    private companion object {
        val VERSION = Regex("[0-9a-f]{64}")
        const val MOST_INDEX_BYTES = 1L shl 20
        const val BUFFER_BYTES = 1 shl 16
    }
}
