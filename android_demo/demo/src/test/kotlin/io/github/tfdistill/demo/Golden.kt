package io.github.tfdistill.demo

import io.github.tfdistill.text.FileSource
import io.github.tfdistill.text.Toys
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.double
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** golden.json of a toy. */
class Golden(name: String, source: FileSource = Toys) {
    /** An example; its pair is null where the second text is empty. */
    class Example(val text: String, val pair: String?, val outputs: List<Double>)

    class Question(val question: String, val context: String, val answer: String)

    private val content =
        source.open("bundles/$name/golden.json").use {
            Json.parseToJsonElement(String(it.readBytes())).jsonObject
        }

    /** Those of whole texts. */
    val examples: List<Example> by lazy {
        list("examples")
            .filter { text(it, "text") != null }
            .map {
                val pair = text(it, "pair")?.ifEmpty { null }
                Example(checkNotNull(text(it, "text")), pair, numbers(it))
            }
    }

    val questions: List<Question> by lazy {
        list("questions").map {
            val (question, context) = listOf("question", "context").map { key -> text(it, key) }
            Question(
                checkNotNull(question),
                checkNotNull(context),
                checkNotNull(text(it, "answer")),
            )
        }
    }

    private fun list(key: String): List<JsonObject> =
        (content[key] as JsonArray).map { it.jsonObject }

    private fun text(of: JsonObject, key: String) = of.getValue(key).jsonPrimitive.contentOrNull

    private fun numbers(of: JsonObject) =
        of.getValue("outputs").jsonArray.map { it.jsonPrimitive.double }
}
