package io.github.tfdistill.text

import java.io.File
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assume.assumeTrue

/** The files that tests/test_android/vectors.py made with tfdistill itself. */
object Resources : FileSource by Toys {
    fun lines(path: String): List<JsonObject> =
        text(path).trim().lines().map { Json.parseToJsonElement(it).jsonObject }

    fun json(path: String): JsonElement = Json.parseToJsonElement(text(path))

    val bundles = Bundles(this)
}

/**
 * The bundles of a folder of assets, into which `tfdistill export --android` put real models.
 *
 * A test that asks for them is skipped if -Dtfdistill.bundles names no folder.
 *
 * @return the folder, and its bundles
 */
fun exported(): Pair<FileSource, List<Bundle>> {
    val path = System.getProperty("tfdistill.bundles").orEmpty()
    assumeTrue("-Dtfdistill.bundles names no folder of exported models", path.isNotEmpty())
    val source = FolderSource(File(path))
    val all = Bundles(source)
    return source to all.index().bundles.keys.map(all::open)
}

/** The content of a bundle's golden.json. */
fun goldenExamples(bundle: Bundle, source: FileSource): List<JsonObject> {
    val path = bundle.pathOf(checkNotNull(bundle.manifest.goldenFile))
    val content = Json.parseToJsonElement(source.text(path)).jsonObject
    return content.getValue("examples").jsonArray.map { it.jsonObject }
}

fun FileSource.text(path: String): String =
    open(path).use { String(it.readBytes(), Charsets.UTF_8) }

/** A copy of the resources that a test may damage. */
class Copy(val folder: File) : FileSource by FolderSource(folder) {
    init {
        for (name in listOf("pairs", "spans", "tags", "vectors").map { "$it-float32" }) {
            val entry = Resources.bundles.index().bundles.getValue(name)
            val card = Resources.json("bundles/$name/model.json").jsonObject
            val records =
                card.values.filterIsInstance<JsonObject>() +
                    card.getValue("tokenizer").jsonObject.getValue("vocab").jsonObject
            val files =
                records.mapNotNull { it["file"]?.string() } +
                    entry.manifest.file +
                    entry.tokens.file
            for (file in files) put(
                "bundles/$name/$file",
                Resources.open("bundles/$name/$file").readBytes(),
            )
        }
        val search = listOf("index.json", "vectors.int8", "texts.jsonl")
        for (path in search.map { "bundles/vectors-float32/search/$it" } + "bundles/index.json") {
            put(path, Resources.open(path).readBytes())
        }
    }

    fun put(path: String, content: ByteArray) =
        File(folder, path).apply { parentFile.mkdirs() }.writeBytes(content)

    /** Changes a bundle's model.json, and the index so that it agrees. */
    fun editManifest(name: String, edit: (String) -> String) {
        val path = "bundles/$name/model.json"
        val old = String(open(path).readBytes(), Charsets.UTF_8)
        val new = edit(old)
        check(new != old) { "the edit changed nothing" }
        putListed(path, new.toByteArray())
    }

    /** Changes a file that the index lists, and the index so that it agrees. */
    fun putListed(path: String, content: ByteArray) {
        val record = Regex("${sha256(open(path).readBytes())}(\",\\s+\"size_bytes\": )\\d+")
        put(path, content)
        editIndex { index ->
            index.replace(record) { sha256(content) + it.groupValues[1] + content.size }
        }
    }

    /** Changes what the index says of indexes of texts; null: as it was before it said so. */
    fun recordSearch(content: String?) {
        val key = content?.let { ",\n\"search\": $it" }.orEmpty()
        editIndex { it.replace(Regex(",\\s+\"search\": \\[[^]]*]"), key) }
    }

    fun editIndex(edit: (String) -> String) {
        val old = String(open("bundles/index.json").readBytes(), Charsets.UTF_8)
        val new = edit(old)
        check(new != old) { "the edit changed nothing" }
        put("bundles/index.json", new.toByteArray())
    }
}

fun JsonElement.string(): String = jsonPrimitive.content

fun JsonElement.ints(): List<Int> = jsonArray.map { it.jsonPrimitive.int }

fun JsonElement.doubles(): List<Double> = jsonArray.map { it.jsonPrimitive.double }

fun JsonElement.floats(): FloatArray =
    (this as JsonArray).map { it.jsonPrimitive.double.toFloat() }.toFloatArray()

fun JsonElement.flag(): Boolean = jsonPrimitive.boolean
