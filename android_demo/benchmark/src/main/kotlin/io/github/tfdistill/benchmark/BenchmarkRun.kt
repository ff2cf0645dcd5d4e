package io.github.tfdistill.benchmark

import io.github.tfdistill.text.AnswerCheck
import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.Feed
import io.github.tfdistill.text.GoldenExamples
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Predictor
import java.util.concurrent.CancellationException
import kotlin.random.Random

/** What a benchmark asks the device that it runs on. */
interface Probe {
    /** The time of day, ISO 8601. */
    fun now(): String

    /** A clock that only goes forward. */
    fun nanoTime(): Long

    /** How the device is, with the worst thermal status since the last call. */
    fun conditions(): Conditions

    /** Resident memory of the process, and the most that there ever was; null if unknown. */
    fun residentBytes(): Long?

    fun peakResidentBytes(): Long?

    fun sleep(seconds: Double)
}

/** What was measured, and what was not. */
data class Measured(
    val measurements: List<Measurement>,
    val texts: List<TextMeasurement>,
    val answers: List<Answered>,
    val failures: List<Failure>,
)

/**
 * Measures a bundle as a [BenchmarkRequest] asks: cases in random order, each repetition with a
 * file that is opened anew, answers first, warms up and then runs in blocks. What fails is among
 * the failures, and the rest goes on.
 *
 * Not thread-safe; [measure] runs on one thread and takes minutes.
 *
 * @property open opens the model with a number of threads
 * @property isCancelled is asked between inferences
 * @property progress is told after each measurement how many of how many are finished
 */
class BenchmarkRun(
    private val bundle: Bundle,
    private val request: BenchmarkRequest,
    private val golden: GoldenExamples,
    private val probe: Probe,
    private val open: (threads: Int) -> ModelRunner,
    private val isCancelled: () -> Boolean = { false },
    private val progress: (finished: Int, of: Int) -> Unit = { _, _ -> },
) {
    /** The sequence lengths that are measured. */
    val lengths: List<Int> = request.lengths.ifEmpty { bundle.lengths.all }

    private class Case(val length: Int, val threads: Int)

    private val delegate = request.accelerator.delegate

    init {
        val unknown = lengths - bundle.lengths.all.toSet()
        require(unknown.isEmpty()) { explain("lengths", "some of ${bundle.lengths.all}", unknown) }
    }

    private val failures = ArrayList<Failure>()

    /**
     * Measures everything.
     *
     * @throws CancellationException if it is told to stop
     * @throws IllegalStateException if every case fails; says why the first did
     */
    fun measure(): Measured {
        val random = Random(request.seed)
        val cases = lengths.flatMap { length -> request.threads.map { Case(length, it) } }
        val of = cases.size * request.repetitions
        val measurements = ArrayList<Measurement>()
        val texts = ArrayList<TextMeasurement>()
        var finished = 0
        progress(0, of)
        for (repetition in 0 until request.repetitions) {
            for (case in cases.shuffled(random)) {
                probe.sleep(request.coolDownSeconds)
                attempt("length ${case.length}, threads ${case.threads}") {
                    measurements += measurement(case, repetition)
                }
                progress(++finished, of)
            }
            check(measurements.isNotEmpty()) { failures.first().error }
            for (threads in request.threads) {
                for (words in WORDS) {
                    val what = if (words == null) "texts" else "texts of $words words"
                    attempt("$what, threads $threads") {
                        textsOf(threads, repetition, words)?.let { texts += it }
                    }
                }
            }
        }
        val answers = ArrayList<Answered>()
        for (threads in request.threads) {
            attempt("answers, threads $threads") { answers += answersOf(threads) }
        }
        checkCancelled() // during the last inference, too
        return Measured(measurements, texts, answers, failures)
    }

    private fun attempt(what: String, work: () -> Unit) {
        try {
            work()
        } catch (error: CancellationException) {
            throw error
        } catch (error: Exception) { // of whatever runs the model
            failures += Failure(what, error.message ?: "$error")
        }
    }

    private fun measurement(case: Case, repetition: Int): Measurement {
        val feeds =
            golden.forLength(bundle.lengths.all, case.length).map {
                bundle.lengths.feed(it, bundle.vocabulary.padId, case.length)
            }
        val started = probe.now()
        val before = probe.conditions()
        val baseline = probe.residentBytes()
        val begin = probe.nanoTime()
        return open(case.threads).use { runner ->
            val initMs = since(begin)
            var next = 0
            fun inference(): Double = timed(runner, feeds[next++ % feeds.size])
            val firstMs = inference()
            val warmup = List(request.warmup) { inference() }
            val estimate = if (warmup.isEmpty()) firstMs else Statistics.median(warmup)
            val blockRuns = request.blockRuns(estimate)
            val samples = List(blockRuns * request.rounds) { inference() }
            Measurement(
                model = bundle.name,
                sequenceLength = case.length,
                threads = case.threads,
                delegate = delegate,
                signature = feeds.first().signature,
                repetition = repetition,
                started = started,
                warmupMs = warmup,
                samplesMs = samples,
                blockRuns = blockRuns,
                initMs = initMs,
                firstInferenceMs = firstMs,
                baselineRssBytes = baseline,
                peakRssBytes = probe.peakResidentBytes(),
                before = before,
                after = probe.conditions(),
            )
        }
    }

    /**
     * From text to answer, each text at the shortest length that fits; null where there is none,
     * and where one of so many words is read in several parts.
     */
    private fun textsOf(threads: Int, repetition: Int, words: Int?): TextMeasurement? {
        val texts = if (words == null) golden.texts else golden.textsOf(words)
        if (texts.isEmpty()) return null
        var tokens = 0
        open(threads).use { runner ->
            val predictor = Predictor(bundle, runner, probe::nanoTime, isCancelled)
            val tokenizer = ArrayList<Double>()
            val whole = ArrayList<Double>()
            for (warm in listOf(true, false)) {
                for ((text, pair) in texts) {
                    val begin = probe.nanoTime()
                    val prediction = predictor.predict(text, pair)
                    val ms = since(begin)
                    tokens = maxOf(tokens, prediction.wholeLength)
                    if (words != null && prediction.inferences > 1) return null
                    if (warm) continue
                    tokenizer += prediction.tokenizerMs
                    whole += ms
                }
            }
            val row = TextMeasurement(bundle.name, threads, delegate, repetition, tokenizer, whole)
            return if (words == null) row else row.copy(words = words, tokens = tokens)
        }
    }

    private fun answersOf(threads: Int): List<Answered> =
        open(threads).use { runner ->
            AnswerCheck(bundle, golden, isCancelled).check(runner).map {
                Answered(
                    bundle.name,
                    it.sequenceLength,
                    threads,
                    delegate,
                    it.numExamples,
                    it.maxAbsError,
                    it.sqnrDb,
                    it.argmaxAgreement,
                )
            }
        }

    private fun timed(runner: ModelRunner, feed: Feed): Double {
        checkCancelled()
        val begin = probe.nanoTime()
        runner.run(feed.signature, feed.inputs)
        return since(begin)
    }

    private fun since(begin: Long): Double = (probe.nanoTime() - begin) / 1e6

    private fun checkCancelled() {
        if (isCancelled()) throw CancellationException("the benchmark was told to stop")
    }

    private companion object {
        /** The examples' texts, and those of a latency card: `tfdistill/benchmark/card.py`. */
        val WORDS = listOf(null, 16, 80, 256)
    }
}
