package io.github.tfdistill.text

import java.util.Base64
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** Reads the tokenizer.json of a Unigram tokenizer, in the one form that an export writes. */
internal object UnigramFile {
    /**
     * Reads a tokenizer.
     *
     * @throws BundleException if it is not of that form: another model, other steps, pieces twice,
     *   scores that are no numbers, special tokens that are no pieces
     */
    fun parse(content: String, truncation: Truncation = Truncation.END): UnigramTokenizer =
        try {
            read(BundleJson.json.parseToJsonElement(content).jsonObject, truncation)
        } catch (error: SerializationException) {
            throw malformed("valid JSON", "$error")
        } catch (error: IllegalArgumentException) { // another type, another number, no base64
            throw malformed("the tokenizer.json of a Unigram tokenizer", "$error")
        } catch (error: NoSuchElementException) {
            throw malformed("the tokenizer.json of a Unigram tokenizer", "$error")
        }

    private fun read(root: JsonObject, truncation: Truncation): UnigramTokenizer {
        val model = root.getValue("model").jsonObject
        val normalizer = root.getValue("normalizer").jsonObject
        expect("model", "Unigram", model.type())
        expect("byte_fallback", "false", model["byte_fallback"]?.jsonPrimitive?.content ?: "false")
        expect("normalizer", "Precompiled", normalizer.type())
        val steps = root.getValue("pre_tokenizer").jsonObject["pretokenizers"] as? JsonArray
        val names = steps.orEmpty().map { it.jsonObject.type() }
        expect("pre_tokenizer", "[WhitespaceSplit, Metaspace]", "$names")

        val entries = model.getValue("vocab").jsonArray
        val pieces = entries.map { it.jsonArray[0].jsonPrimitive.content }
        val scores = DoubleArray(entries.size) { entries[it].jsonArray[1].jsonPrimitive.double }
        if (scores.any { !it.isFinite() }) throw malformed("scores that are numbers", "another")
        val ids = HashMap<String, Int>(2 * pieces.size)
        for ((id, piece) in pieces.withIndex()) {
            val earlier = ids.put(piece, id) ?: continue
            throw malformed("each piece once", "'$piece' as $earlier and $id")
        }
        val added = root.getValue("added_tokens").jsonArray.map { added(it.jsonObject, ids) }
        val (begin, pad, end) = SPECIAL.map(ids::getValue)
        val unknown = model.getValue("unk_id").jsonPrimitive.int
        expect("unk_id", "a piece", if (unknown in pieces.indices) "a piece" else "$unknown")
        return UnigramTokenizer(
            Vocabulary(pieces, ids, pad, unknown, begin, end),
            UnigramPieces(pieces, scores, unknown),
            CharsMap(
                Base64.getDecoder().decode(normalizer.getValue("precompiled_charsmap").string())
            ),
            added,
            truncation,
        )
    }

    private fun added(token: JsonObject, ids: Map<String, Int>): UnigramTokenizer.AddedToken {
        val content = token.getValue("content").string()
        expect("id of '$content'", "${ids[content]}", token.getValue("id").jsonPrimitive.content)
        for (flag in listOf("single_word", "rstrip", "normalized")) {
            expect("$flag of '$content'", "false", token.getValue(flag).jsonPrimitive.content)
        }
        val lstrip = token.getValue("lstrip").jsonPrimitive.boolean
        return UnigramTokenizer.AddedToken(content, ids.getValue(content), lstrip)
    }

    private fun JsonElement.string(): String {
        require(jsonPrimitive.isString) { "not a string: $this" }
        return jsonPrimitive.content
    }

    private fun JsonObject.type() = getValue("type").string()

    private fun expect(what: String, expected: String, received: String) {
        if (expected != received) throw malformed("$what $expected", received)
    }

    private fun malformed(expected: String, received: String) =
        BundleException(BundleFault.MALFORMED, explain("tokenizer.json", expected, received))

    private val SPECIAL = listOf("<s>", "<pad>", "</s>")
}
