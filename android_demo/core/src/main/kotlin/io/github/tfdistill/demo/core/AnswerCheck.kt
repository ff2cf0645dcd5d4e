package io.github.tfdistill.demo.core

import java.util.concurrent.CancellationException
import kotlin.math.abs
import kotlin.math.log10
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.float
import kotlinx.serialization.json.jsonPrimitive

/**
 * Whether a model answers here as its file answered on the computer that exported it.
 *
 * Each example runs at the shortest length that holds it; padding does not count.
 */
class AnswerCheck(
    private val bundle: Bundle,
    golden: GoldenExamples,
    private val isCancelled: () -> Boolean = { false },
) {
    private val examples =
        golden.examples.filter {
            it.outputs is JsonArray && it.inputIds.size <= bundle.lengths.all.last()
        }

    /**
     * Runs the golden examples.
     *
     * @return a row for each length that has examples
     * @throws CancellationException if it is told to stop
     * @throws BundleException if an output is no number
     */
    fun check(runner: ModelRunner, threads: Int, delegate: String): List<Answered> =
        examples
            .groupBy { example -> bundle.lengths.all.first { it >= example.inputIds.size } }
            .toSortedMap()
            .map { (length, own) ->
                val pairs = own.map { flat(it.outputs) to answer(runner, it) }
                val errors = pairs.flatMap { (host, here) -> host.zip(here) { a, b -> a - b } }
                val power = pairs.sumOf { (host, _) -> host.sumOf { (it * it).toDouble() } }
                val noise = errors.sumOf { it.toDouble() * it }
                Answered(
                    bundle.name,
                    length,
                    threads,
                    delegate,
                    own.size,
                    errors.maxOf { abs(it) }.toDouble(),
                    if (noise > 0 && power > 0) 10 * log10(power / noise) else null,
                    agreement(pairs),
                )
            }

    /** The outputs in the order of golden.json, without those of padding. */
    private fun answer(runner: ModelRunner, example: GoldenExample): List<Float> {
        if (isCancelled()) throw CancellationException("the benchmark was told to stop")
        val size = example.inputIds.size
        val ids = example.inputIds.toIntArray()
        val encoding = Encoding(ids, example.tokenTypeIds.toIntArray(), size)
        val feed = bundle.lengths.feed(encoding, bundle.vocabulary.padId)
        val outputs = runner.run(feed.signature, feed.inputs)
        outputs.values.forEach(Answers::checkFinite)
        if (bundle.task.kind != TaskKind.SPAN) {
            return outputs.values.single().take(flat(example.outputs).size)
        }
        val (starts, ends) = listOf(Spans.START, Spans.END).map { outputs.getValue(it) }
        return (0 until size).flatMap { listOf(starts[it], ends[it]) }
    }

    /** The share of examples with the same largest output everywhere; null for one output. */
    private fun agreement(pairs: List<Pair<List<Float>, List<Float>>>): Double? {
        if (bundle.task.kind == TaskKind.REGRESSION) return null
        return pairs.count { (host, here) -> best(host) == best(here) }.toDouble() / pairs.size
    }

    /** Where the largest outputs are: of a text, of each token, of starts and ends. */
    private fun best(outputs: List<Float>): List<Int> {
        val groups =
            when (bundle.task.kind) {
                TaskKind.TOKEN -> outputs.chunked(bundle.task.labels.size)
                TaskKind.SPAN ->
                    listOf(0, 1).map { column ->
                        outputs.filterIndexed { at, _ -> at % 2 == column }
                    }
                else -> listOf(outputs)
            }
        return groups.map { Answers.argmax(it.toFloatArray()) }
    }

    private fun flat(element: JsonElement): List<Float> =
        if (element is JsonArray) element.flatMap(::flat) else listOf(element.jsonPrimitive.float)
}
