package io.github.tfdistill.text

import kotlinx.serialization.DeserializationStrategy
import kotlinx.serialization.SerializationException
import kotlinx.serialization.builtins.ListSerializer
import kotlinx.serialization.builtins.serializer
import kotlinx.serialization.descriptors.SerialDescriptor
import kotlinx.serialization.descriptors.StructureKind
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive

/**
 * Reads the files of a bundle: missing keys and other types are errors. Unknown keys are ignored,
 * since a later version may have written them, but for those that the file lists in "requires".
 */
internal object BundleJson {
    val json = Json {
        prettyPrint = true
        ignoreUnknownKeys = true
    }

    private const val REQUIRES = "requires"
    private val PATHS = ListSerializer(String.serializer())

    /**
     * Decodes a file that says its own format_version.
     *
     * @throws BundleException if it is of a later version or requires what only a later one reads,
     *   or is not what it should be
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
                throw newer("format_version of $what", "$version", received)
            }
            if (received != version) {
                val message = explain("format_version of $what", "$version", element)
                throw BundleException(BundleFault.MALFORMED, message)
            }
            val required =
                (tree as JsonObject)[REQUIRES]?.let { json.decodeFromJsonElement(PATHS, it) }
            val unread = required.orEmpty().filterNot { reads(type.descriptor, it.split('.')) }
            if (unread.isNotEmpty()) {
                throw newer("$REQUIRES of $what", "keys that this version reads", unread)
            }
            return json.decodeFromJsonElement(type, tree)
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

    /** Whether a type, or the type of the values of a list or map, has fields of these names. */
    private fun reads(type: SerialDescriptor, keys: List<String>): Boolean {
        if (keys.isEmpty()) return true
        val index =
            when (type.kind) {
                StructureKind.LIST -> return reads(type.getElementDescriptor(0), keys)
                StructureKind.MAP -> return reads(type.getElementDescriptor(1), keys)
                StructureKind.CLASS -> type.getElementIndex(keys.first())
                else -> return false
            }
        return index >= 0 && reads(type.getElementDescriptor(index), keys.drop(1))
    }

    private fun newer(what: String, expected: String, received: Any): BundleException {
        val remedy = "Update the app, or export again with the version that it came with."
        return BundleException(BundleFault.NEWER, explain(what, expected, received, remedy))
    }

    private fun malformed(what: String, error: Throwable): BundleException {
        val received = error.message?.lineSequence()?.firstOrNull() ?: error.javaClass.simpleName
        return BundleException(BundleFault.MALFORMED, explain(what, "its format", received), error)
    }
}
