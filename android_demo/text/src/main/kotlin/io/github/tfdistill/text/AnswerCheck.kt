package io.github.tfdistill.text

import java.util.Collections
import java.util.concurrent.CancellationException
import kotlin.math.abs
import kotlin.math.log10
import kotlin.math.sqrt
import kotlinx.serialization.json.JsonArray

/**
 * The answers at a sequence length against those of the computer that exported the model.
 *
 * @property maxAbsError largest |host - here| over all outputs
 * @property sqnrDb 10 log10(sum host^2 / sum (host - here)^2), dB; null where nothing differs
 * @property argmaxAgreement share of examples with the same labels, 0 to 1; null without labels
 */
public class LengthAnswers
internal constructor(
    public val sequenceLength: Int,
    public val numExamples: Int,
    public val maxAbsError: Double,
    public val sqnrDb: Double?,
    public val argmaxAgreement: Double?,
)

/**
 * Whether a model answers here as its file answered on the computer that exported it.
 *
 * Each example runs at the shortest length that holds it; padding does not count.
 *
 * @param golden the examples of the bundle
 * @param isCancelled is asked before each inference
 */
public class AnswerCheck(
    private val bundle: Bundle,
    golden: GoldenExamples,
    private val isCancelled: () -> Boolean = { false },
) {
    private val examples =
        golden.examples.filter {
            it.outputs is JsonArray && it.inputIds.size <= bundle.lengths.all.last()
        }

    private class Both(val example: GoldenExample, val host: List<Float>, val here: List<Float>) {
        val error: Double = host.zip(here) { a, b -> abs(a - b) }.max().toDouble()
    }

    /**
     * Runs the golden examples.
     *
     * @return a row for each length that has examples
     * @throws CancellationException if it is told to stop
     * @throws BundleException if an output is no number
     */
    public fun check(runner: ModelRunner): List<LengthAnswers> =
        examples
            .groupBy { example -> bundle.lengths.all.first { it >= example.inputIds.size } }
            .toSortedMap()
            .map { (length, group) ->
                val pairs = group.map { compared(runner, it, length) }
                LengthAnswers(
                    length,
                    group.size,
                    pairs.maxOf { it.error },
                    sqnr(pairs),
                    agreement(pairs),
                )
            }

    /**
     * Compares the answers at every length before an accelerator may be used: a length that no
     * example has of its own runs the shorter ones, padded to it.
     *
     * @param progress is told after each answer how many of how many are compared
     * @throws CancellationException if it is told to stop
     * @throws BundleException if an output is no number
     */
    public fun parity(
        runner: ModelRunner,
        progress: (done: Int, of: Int) -> Unit = { _, _ -> },
    ): DeviceParity {
        val all = bundle.lengths.all
        val byLength = examples.groupBy { example -> all.first { it >= example.inputIds.size } }
        val plan =
            all.flatMap { length ->
                val chosen = byLength[length] ?: examples.filter { it.inputIds.size <= length }
                chosen.map { it to length }
            }
        val pairs =
            plan.mapIndexed { index, (example, length) ->
                compared(runner, example, length).also { progress(index + 1, plan.size) }
            }
        val outputs = pairs.flatMap { it.host }
        val rms = sqrt(outputs.sumOf { it.toDouble() * it } / maxOf(1, outputs.size))
        return DeviceParity(
            bundle.name,
            pairs.size,
            all - plan.map { it.second }.toSet(),
            (pairs.maxOfOrNull { it.error } ?: 0.0) / if (rms > 0) rms else 1.0,
            sqnr(pairs),
            pairs.filterNot(::sameLabels).map { name(it.example) },
            pairs.maxByOrNull { it.error }?.let { name(it.example) }.orEmpty(),
            ParityBounds.of(bundle.manifest),
        )
    }

    /**
     * Compares one answer, of the example with the largest outputs: of these rounding is the least
     * part.
     *
     * @return its SQNR, dB; null if nothing differs, or no example has outputs
     */
    internal fun oneSqnr(runner: ModelRunner): Double? {
        val example =
            examples.maxByOrNull { row -> GoldenRunner.flat(row.outputs).map { it * it }.average() }
                ?: return null
        val length = bundle.lengths.all.first { it >= example.inputIds.size }
        return sqnr(listOf(compared(runner, example, length)))
    }

    private fun compared(runner: ModelRunner, example: GoldenExample, length: Int) =
        Both(example, GoldenRunner.flat(example.outputs), answer(runner, example, length))

    private fun name(example: GoldenExample) =
        example.text ?: example.inputIds.joinToString(" ", "ids ")

    /** The outputs in the order of golden.json, without those of padding. */
    private fun answer(runner: ModelRunner, example: GoldenExample, length: Int): List<Float> {
        if (isCancelled()) throw CancellationException("the benchmark was told to stop")
        val size = example.inputIds.size
        val ids = example.inputIds.toIntArray()
        val encoding = Encoding(ids, example.tokenTypeIds.toIntArray(), size)
        val feed = bundle.lengths.feed(encoding, bundle.vocabulary.padId, length)
        val outputs = runner.run(feed.signature, feed.inputs)
        outputs.values.forEach(Answers::checkFinite)
        if (bundle.task.kind != TaskKind.SPAN) {
            return outputs.values.single().take(GoldenRunner.flat(example.outputs).size)
        }
        val (starts, ends) = listOf(Spans.START, Spans.END).map { outputs.getValue(it) }
        return (0 until size).flatMap { listOf(starts[it], ends[it]) }
    }

    /** 10 log10(sum host^2 / sum (host - here)^2); null where there is nothing to divide. */
    private fun sqnr(pairs: List<Both>): Double? {
        val power = pairs.sumOf { pair -> pair.host.sumOf { (it * it).toDouble() } }
        val noise =
            pairs.sumOf { pair ->
                pair.host.zip(pair.here) { a, b -> (a - b).toDouble() }.sumOf { it * it }
            }
        return if (noise > 0 && power > 0) 10 * log10(power / noise) else null
    }

    /**
     * The share of examples with the same largest output everywhere; null where that means none.
     */
    private fun agreement(pairs: List<Both>): Double? {
        if (bundle.task.kind in listOf(TaskKind.REGRESSION, TaskKind.EMBEDDING)) return null
        val tagged = bundle.task.kind == TaskKind.TOKEN
        val labelled = pairs.filter { !tagged || it.example.firstPieces.isNotEmpty() }
        return labelled.map { if (sameLabels(it)) 1.0 else 0.0 }.ifEmpty { null }?.average()
    }

    private fun sameLabels(pair: Both) =
        decided(pair.example, pair.host) == decided(pair.example, pair.here)

    /**
     * What the outputs decide: the largest of a text, of each word's first piece (golden.json lists
     * them; what else a row has does not matter), of the starts and ends that an answer may have;
     * of several labels those that apply; of a vector nothing.
     */
    private fun decided(example: GoldenExample, outputs: List<Float>): List<Int> {
        if (bundle.task.kind == TaskKind.MULTI_LABEL) {
            val least = if (bundle.manifest.softmax) 0.5f else 0f
            return outputs.indices.filter { outputs[it] > least }
        }
        val groups =
            when (bundle.task.kind) {
                TaskKind.TOKEN ->
                    outputs.chunked(bundle.task.labels.size).filterIndexed { at, _ ->
                        at in example.firstPieces
                    }
                TaskKind.SPAN -> {
                    val answers = mayAnswer(example.inputIds)
                    listOf(0, 1).map { column ->
                        outputs.filterIndexed { at, _ -> at % 2 == column && at / 2 in answers }
                    }
                }
                TaskKind.EMBEDDING -> emptyList()
                else -> listOf(outputs)
            }
        return groups.map { Answers.argmax(it.toFloatArray()) }
    }

    /**
     * The tokens that can be part of an answer: the first, for none, and those between the tokens
     * that part a text from its question and the last one.
     */
    private fun mayAnswer(ids: List<Int>): Set<Int> {
        val separators = List(bundle.tokenizer.separators) { bundle.vocabulary.sepId }
        val begin = Collections.indexOfSubList(ids, separators) + separators.size
        return setOf(0) + (begin until ids.size - 1)
    }
}
