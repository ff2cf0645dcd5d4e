package io.github.tfdistill.text

import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.channels.ClosedByInterruptException
import java.security.MessageDigest

/**
 * A bundle whose files are the ones that were exported, and fit one another.
 *
 * @property name in the index
 * @property manifest what model.json says
 * @property tokenizer of the model
 */
public class Bundle
internal constructor(
    public val name: String,
    internal val entry: IndexEntry,
    public val manifest: Manifest,
    public val tokenizer: Tokenizer,
) {
    /** The tokens of the model. */
    public val vocabulary: Vocabulary
        get() = tokenizer.vocabulary

    /** What its answers mean. */
    public val task: TaskRecord = checkNotNull(manifest.task) // checked when it was read

    /** The sequence lengths that it can be run at. */
    public val lengths: Lengths =
        Lengths(manifest.signatures, checkNotNull(manifest.tokenizer).maxLength)

    /** The tensors of each signature as the manifest says them: what a runtime has to bind. */
    public val signatures: Map<String, SignatureTensors>
        get() =
            manifest.signatures.mapValues { SignatureTensors(it.value.inputs, it.value.outputs) }

    /**
     * The bundle with its file for a kind of processor alone: "cpu", "gpu", or of earlier versions
     * "npu".
     *
     * @return null if it has no such file
     */
    public fun forDevice(device: String): Bundle? {
        val variantName = if (device == manifest.device) name else "$name-$device"
        return manifest.forDevice(device)?.let { Bundle(variantName, entry, it, tokenizer) }
    }

    /**
     * Opens the model file, and checks that the runtime sees the signatures of the manifest in it.
     *
     * @param source that the bundle was read from
     * @throws BundleException if it cannot be read, the runtime cannot run it, or a signature is
     *   missing or has other tensors
     */
    public fun openModel(source: FileSource, runners: RunnerFactory): ModelRunner {
        val content = reading(modelPath, Bundles.EXPORT_REMEDY) { source.map(modelPath) }
        val runner =
            try {
                runners.open(content)
            } catch (error: RuntimeException) { // of runtimes, which have no other for this
                val message = explain(modelPath, "a model that this runtime runs", error.message)
                throw BundleException(BundleFault.UNSUITABLE, message, error)
            }
        try {
            checkModel(runner.signatures)
            return runner
        } catch (error: Exception) { // a BundleException is no RuntimeException
            runner.close()
            throw error
        }
    }

    /** Opens the bundle for answers, see [Predictor.open]. */
    internal fun open(
        source: FileSource,
        runners: RunnerFactory,
        maxError: Double?,
        maxDisagreement: Double?,
    ): Predictor {
        Predictor.promiseOf(this, maxError, maxDisagreement) // before the model is opened
        val runner = openModel(source, runners)
        runCatching { Predictor.checkRuntime(this, source, runner) }
            .onFailure { runner.close() }
            .getOrThrow()
        return Predictor(this, runner, maxError = maxError, maxDisagreement = maxDisagreement)
    }

    /** Path of the model file in the source that the bundle was read from. */
    public val modelPath: String
        get() = pathOf(manifest.model)

    /** Path of a file of the bundle in its source. */
    internal fun pathOf(record: FileRecord): String =
        "${Bundles.FOLDER}/${entry.folder}/${record.file}"

    /**
     * Checks that a runtime sees the model of the manifest in the model file.
     *
     * @throws BundleException if a signature is missing or has other tensors
     */
    public fun checkModel(signatures: Map<String, SignatureTensors>): Unit =
        ManifestChecks.check(manifest, signatures)
}

/** Reads a file; what fails is a fault of the bundle. */
private fun <T> reading(path: String, remedy: String, read: () -> T): T =
    try {
        read()
    } catch (error: FileNotFoundException) {
        throw BundleException(BundleFault.MISSING, explain(path, "a file", "none", remedy), error)
    } catch (error: ClosedByInterruptException) { // the file is whole, the thread is to end
        throw error
    } catch (error: IOException) {
        throw BundleException(BundleFault.MALFORMED, explain(path, "a file", "$error"), error)
    }

/** The bundles that `tfdistill export --android` put into a folder of assets. */
public class Bundles(private val source: FileSource) {

    /**
     * Reads bundles/index.json.
     *
     * @throws BundleException if it is missing or damaged, or of a later version
     */
    internal fun index(): BundleIndex {
        val content = String(read("$FOLDER/$INDEX"), Charsets.UTF_8)
        val version = BundleIndex.FORMAT_VERSION
        val index = BundleJson.decode(INDEX, content, version, BundleIndex.serializer())
        ManifestChecks.check(index)
        return index
    }

    /**
     * The names of all bundles, sorted.
     *
     * @throws BundleException if the index is missing or damaged, or of a later version
     */
    public fun names(): List<String> = index().bundles.keys.sorted()

    /**
     * Opens a bundle and checks each of its files; reads them whole.
     *
     * @param name its name in the index
     * @throws BundleException if it is not there, damaged, or nothing that this app can use
     */
    public fun open(name: String): Bundle {
        val index = index()
        val entry =
            index.bundles[name]
                ?: throw BundleException(
                    BundleFault.MISSING,
                    explain("bundle", "one of ${index.bundles.keys}", name),
                )
        val folder = "$FOLDER/${entry.folder}"
        val card = manifest(name, entry)
        val record = checkNotNull(card.tokenizer)
        val read = Tokenizer.KINDS.getValue(record.kind)
        val tokenizer = read(verified(folder, record.vocab), record)
        val size = tokenizer.vocabulary.size
        if (size != record.vocabSize) {
            throw unsuitable("tokens of $name", "${record.vocabSize}", size)
        }
        ManifestChecks.check(card, tokenizer)
        card.labelsFile?.let { checkLabels(name, verified(folder, it), card) }
        val wanted =
            if (entry.device == null) card
            else
                card.forDevice(entry.device) ?: throw unsuitable(name, entry.device, "no such file")
        val variants = wanted.variants.values.flatMap { listOf(it.goldenFile, it.model) }
        for (record in listOfNotNull(entry.tokens, wanted.goldenFile, wanted.model) + variants) {
            if (record != null) compare(folder, record, digest("$folder/${record.file}"))
        }
        return Bundle(name, entry, wanted, tokenizer)
    }

    /**
     * Reads the model.json of a bundle.
     *
     * @throws BundleException if it is not the one of the index, or cannot be true
     */
    internal fun manifest(name: String, entry: IndexEntry): Manifest {
        val content = verified("$FOLDER/${entry.folder}", entry.manifest)
        val card =
            BundleJson.decode(
                "model.json of $name",
                String(content, Charsets.UTF_8),
                Manifest.FORMAT_VERSION,
                Manifest.serializer(),
            )
        ManifestChecks.check(card)
        return card
    }

    private fun digest(content: ByteBuffer): String {
        val digest = MessageDigest.getInstance(SHA256)
        digest.update(content.duplicate())
        return hex(digest.digest())
    }

    /** The names of the bundles that have an index of texts. */
    public fun searchable(): List<String> = index().bundles.filterValues(::hasIndex).keys.sorted()

    /**
     * Whether an index of texts belongs to a bundle; where that is not recorded, its file tells.
     */
    internal fun hasIndex(entry: IndexEntry): Boolean {
        if (entry.device != null || entry.search != null) return !entry.search.isNullOrEmpty()
        return try {
            source.open("$FOLDER/${entry.folder}/${TextIndex.FOLDER}/${TextIndex.CARD}").close()
            true
        } catch (_: FileNotFoundException) {
            false
        }
    }

    /**
     * Opens the index of texts of a bundle and checks its files.
     *
     * @throws BundleException if none belongs to the bundle, or it is damaged, or of another model
     */
    public fun openIndex(bundle: Bundle): TextIndex {
        val card = indexCard(bundle)
        val folder = searchFolder(bundle)
        val path = "$folder/${card.vectors.file}"
        val vectors = reading(path, INDEX_REMEDY) { source.map(path) }
        compare(folder, card.vectors, digest(vectors))
        return TextIndex(card, vectors, verified(folder, card.texts, INDEX_REMEDY))
    }

    private fun searchFolder(bundle: Bundle) = "$FOLDER/${bundle.entry.folder}/${TextIndex.FOLDER}"

    /** Reads what the index of a bundle's texts says of itself. */
    internal fun indexCard(bundle: Bundle): TextIndexCard {
        if (!hasIndex(bundle.entry)) {
            val message =
                explain(
                    "index of texts of ${bundle.name}",
                    "one of this model",
                    "none",
                    INDEX_REMEDY,
                )
            throw BundleException(BundleFault.MISSING, message)
        }
        val folder = searchFolder(bundle)
        val content =
            bundle.entry.search?.let { verified(folder, it.first(), INDEX_REMEDY) }
                ?: opened("$folder/${TextIndex.CARD}", INDEX_REMEDY) { it.readBytes() }
        val card =
            BundleJson.decode(
                "${TextIndex.CARD} of the texts of ${bundle.name}",
                String(content, Charsets.UTF_8),
                TextIndexCard.FORMAT_VERSION,
                TextIndexCard.serializer(),
            )
        ManifestChecks.check(card, bundle)
        return card
    }

    private fun checkLabels(name: String, content: ByteArray, card: Manifest) {
        val lines = String(content, Charsets.UTF_8).removeSuffix("\n").split('\n')
        val labels = card.task?.labels
        if (lines != labels) throw unsuitable("labels.txt of $name", "$labels", lines)
    }

    private fun verified(
        folder: String,
        record: FileRecord,
        remedy: String = EXPORT_REMEDY,
    ): ByteArray {
        val content = opened("$folder/${record.file}", remedy) { it.readBytes() }
        compare(folder, record, hex(MessageDigest.getInstance(SHA256).digest(content)))
        return content
    }

    private fun compare(folder: String, record: FileRecord, received: String) {
        if (received == record.sha256) return
        val remedy = "The file is not the one that was written: export again, or index again."
        val message = explain("$folder/${record.file}", record.sha256, received, remedy)
        throw BundleException(BundleFault.TAMPERED, message)
    }

    private fun read(path: String): ByteArray = opened(path) { it.readBytes() }

    private fun digest(path: String): String =
        opened(path) { stream ->
            val digest = MessageDigest.getInstance(SHA256)
            val buffer = ByteArray(1 shl 16)
            while (true) {
                val count = stream.read(buffer)
                if (count < 0) break
                digest.update(buffer, 0, count)
            }
            hex(digest.digest())
        }

    private fun <T> opened(
        path: String,
        remedy: String = EXPORT_REMEDY,
        use: (InputStream) -> T,
    ): T = reading(path, remedy) { source.open(path).use(use) }

    private fun unsuitable(what: String, expected: String, received: Any?) =
        BundleException(BundleFault.UNSUITABLE, explain(what, expected, received))

    internal companion object {
        const val FOLDER = "bundles"
        const val INDEX = "index.json"
        const val EXPORT_REMEDY = "`tfdistill export --android` makes it."
        private const val INDEX_REMEDY = "`tfdistill index` makes it."
        private const val SHA256 = "SHA-256"

        fun hex(bytes: ByteArray): String =
            bytes.joinToString("") { (it.toInt() and 0xFF).toString(16).padStart(2, '0') }
    }
}
