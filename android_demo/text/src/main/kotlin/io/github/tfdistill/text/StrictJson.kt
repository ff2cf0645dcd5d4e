package io.github.tfdistill.text

import kotlinx.serialization.DeserializationStrategy
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonObject

/** Reads files of a known version: unknown keys, missing ones and other types are errors. */
internal object StrictJson {
    /** Of the values, as `tfdistill` compares it; an app compares those of whole files. */
    private const val CHECKSUM = "checksum"

    val json = Json { prettyPrint = true }

    /**
     * Decodes a file that says its own format_version.
     *
     * @throws BundleException if it is of a later version, or not what it should be
     */
    fun <T> decode(
        what: String,
        content: String,
        version: Int,
        type: DeserializationStrategy<T>,
    ): T {
        try {
            val tree = json.parseToJsonElement(content)
            val element = (tree as? JsonObject)?.get("format_version") as? JsonPrimitive
            val received = element?.takeUnless { it.isString }?.content?.toIntOrNull()
            if (received != null && received > version) {
                val remedy = "Update the app, or export again with the version that it came with."
                val message = explain("format_version of $what", "$version", received, remedy)
                throw BundleException(BundleFault.NEWER, message)
            }
            if (received != version) {
                val message = explain("format_version of $what", "$version", element)
                throw BundleException(BundleFault.MALFORMED, message)
            }
            val values = JsonObject(tree.jsonObject - CHECKSUM)
            return json.decodeFromJsonElement(type, values)
        } catch (error: SerializationException) {
            throw malformed(what, error)
        } catch (error: StackOverflowError) { // brackets, thousands deep
            throw malformed(what, error)
        }
    }

    /**
     * Decodes what stands in a file of a known version.
     *
     * @throws BundleException if it is not what it should be
     */
    fun <T> decode(what: String, content: String, type: DeserializationStrategy<T>): T =
        try {
            json.decodeFromString(type, content)
        } catch (error: SerializationException) {
            throw malformed(what, error)
        } catch (error: StackOverflowError) {
            throw malformed(what, error)
        }

    private fun malformed(what: String, error: Throwable): BundleException {
        val received = error.message?.lineSequence()?.firstOrNull() ?: error.javaClass.simpleName
        return BundleException(BundleFault.MALFORMED, explain(what, "its format", received), error)
    }
}
