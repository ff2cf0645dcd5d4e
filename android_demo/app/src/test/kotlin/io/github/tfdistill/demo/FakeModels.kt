package io.github.tfdistill.demo

import io.github.tfdistill.demo.core.Accelerator
import io.github.tfdistill.demo.core.Bundle
import io.github.tfdistill.demo.core.FileSource
import io.github.tfdistill.demo.core.ModelRunner
import io.github.tfdistill.demo.core.SignatureTensors
import java.io.FileNotFoundException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** The toy models that core's tests have, too. */
object Toys : FileSource {
    override fun open(path: String) =
        Toys::class.java.getResourceAsStream("/$path") ?: throw FileNotFoundException(path)
}

/** A runtime that knows the golden examples, and nothing else. */
class FakeModels(private val source: FileSource = Toys) : ModelOpener {
    /** How many models are open, and how often any ran. */
    var open = 0
        private set

    @Volatile
    var runs = 0
        private set

    /** The most that were open at a time, and what each was opened on. */
    var mostOpen = 0
        private set

    val openedOn = ArrayList<Accelerator>()

    /** What happens during an inference. */
    var during: () -> Unit = {}

    /** What happens when a model is opened on the GPU, and what that makes of an output. */
    var openingOnGpu: () -> Unit = {}
    var onGpu: (Float) -> Float = { it }
    var gpuShares = false

    override fun open(bundle: Bundle, threads: Int, accelerator: Accelerator): ModelRunner {
        val golden = checkNotNull(bundle.manifest.goldenFile)
        val content = source.open(bundle.pathOf(golden)).use { String(it.readBytes()) }
        val examples = Json.parseToJsonElement(content).jsonObject.getValue("examples").jsonArray
        openedOn += accelerator
        if (accelerator == Accelerator.GPU) openingOnGpu()
        mostOpen = maxOf(mostOpen, ++open)
        val byIds = examples.map { it.jsonObject }.associateBy { ids(it["input_ids"]) }
        return if (accelerator == Accelerator.GPU) Runner(bundle, byIds, onGpu, gpuShares)
        else Runner(bundle, byIds)
    }

    private fun ids(values: JsonElement?): List<Int> =
        checkNotNull(values).jsonArray.map { it.jsonPrimitive.int }

    private inner class Runner(
        private val bundle: Bundle,
        private val examples: Map<List<Int>, Map<String, JsonElement>>,
        private val change: (Float) -> Float = { it },
        override val sharesWithCpu: Boolean = false,
    ) : ModelRunner {
        override val signatures =
            bundle.manifest.signatures.mapValues {
                SignatureTensors(it.value.inputs, it.value.outputs)
            }

        override fun run(
            signature: String,
            inputs: Map<String, IntArray>,
        ): Map<String, FloatArray> {
            runs++
            during()
            check(inputs.keys == signatures.getValue(signature).inputs.keys)
            val mask = inputs.getValue("attention_mask")
            val ids = inputs.getValue("input_ids").take(mask.sum())
            val example = checkNotNull(examples[ids]) { "no golden example has the ids $ids" }
            check(example.getValue("signature").jsonPrimitive.content == signature)
            val outputs = example.getValue("outputs").jsonArray
            val tensors = signatures.getValue(signature).outputs
            if (tensors.size == 2) {
                return mapOf("start_logits" to 0, "end_logits" to 1).mapValues { (_, column) ->
                    FloatArray(mask.size) {
                        if (it < ids.size) change(number(outputs[it].jsonArray[column])) else 9f
                    }
                }
            }
            val flat =
                outputs
                    .flatMap { if (it is JsonArray) it else listOf(it) }
                    .map { change(number(it)) }
            val (name, tensor) = tensors.entries.single()
            val size = tensor.shape.fold(1, Int::times)
            return mapOf(name to FloatArray(size) { flat.getOrElse(it) { 9f } })
        }

        override fun close() {
            open--
        }
    }

    private fun number(value: JsonElement) = value.jsonPrimitive.double.toFloat()
}
