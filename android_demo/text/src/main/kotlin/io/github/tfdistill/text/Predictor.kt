package io.github.tfdistill.text

import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.CancellationException
import java.util.concurrent.ConcurrentHashMap
import kotlin.math.exp
import kotlin.math.roundToInt

/** What a model says about a text. */
public sealed interface Outcome {
    /**
     * Labels with their probabilities, the most probable first.
     *
     * @property several whether any number of them can apply, each by itself
     */
    public data class Labels(val labels: List<Scored>, val several: Boolean = false) : Outcome {
        /** The labels that apply: the most probable one; of several all above 0.5, if any. */
        val chosen: List<String>
            get() =
                if (several) labels.filter { it.probability > 0.5 }.map { it.label }
                else listOf(labels.first().label)
    }

    /** A number. */
    public data class Value(val value: Double) : Outcome

    /**
     * A tag for each word of a text, those of the best path that the scheme of the tags allows.
     *
     * @property entities those that the tags name, in order; null of tags that name none
     * @property hidden what [Predictor.mask] hides besides: words outside of these entities, where
     *   the file promises that a share of all entities is masked
     */
    public data class Tags(
        val text: String,
        val words: List<String>,
        val tags: List<String>,
        val entities: List<Entity>? = null,
        val hidden: List<Entity> = emptyList(),
    ) : Outcome

    /** The vector of a text, for a [TextIndex]. */
    public class Vector(public val values: FloatArray) : Outcome

    /** An answer to a question; its text is "" if there is none. */
    public data class Found(val answer: Answer) : Outcome
}

/**
 * An outcome, and how it came about.
 *
 * @property tokens what the model read, special tokens included; of several windows the first
 * @property wholeLength the tokens that there would be if nothing had been cut
 * @property sequenceLength of the signature, padding included
 * @property inferences one, but of a question and of words to tag one for each window
 * @property probability of all labels, also those that do not apply, or of all tags together,
 *   calibrated where the export could fit it; null for other outcomes
 * @property sure whether the file promises that at most a share of such answers is wrong; null
 *   where it promises nothing, or of entities alone. A text that is recognised as unlike the
 *   training texts is not sure; the promise itself is not tested on texts of another kind than
 *   those that it was fitted on
 * @property unknownToken the one among the tokens that stands for what is not in the vocabulary
 */
public data class Prediction(
    val outcome: Outcome,
    val tokens: List<String>,
    val wholeLength: Int,
    val sequenceLength: Int,
    val inferences: Int,
    val tokenizerMs: Double,
    val inferenceMs: Double,
    val probability: Double? = null,
    val sure: Boolean? = null,
    val unknownToken: String? = null,
) {
    /** The class of the text; null for other outcomes. */
    val label: String?
        get() = (outcome as? Outcome.Labels)?.takeUnless { it.several }?.chosen?.single()

    /** The labels of the text: one class, or any number where several can apply. */
    val labels: List<String>
        get() = (outcome as? Outcome.Labels)?.chosen.orEmpty()

    /** The entities in the text, where tags name them; null for other outcomes. */
    val entities: List<Entity>?
        get() = (outcome as? Outcome.Tags)?.entities
}

/**
 * From texts to outcomes, with the runtime that was opened for a bundle.
 *
 * @property isCancelled is asked before each inference: a long text behind a question has many
 * @param maxError the promise that says which answers, or entities, are sure, one of those in the
 *   manifest: at most this share of them is wrong, on texts of the kind that it was fitted on; null
 *   for 0.05, where the file promises anything
 * @param maxDisagreement in place of [maxError], the agreement that says it: at most this share of
 *   all requests gets a sure answer unlike that of the large model that the file speaks for
 * @throws IllegalArgumentException if the file does not promise this, or both are named
 */
public class Predictor(
    private val bundle: Bundle,
    private val runner: ModelRunner,
    private val nanoTime: () -> Long = System::nanoTime,
    private val isCancelled: () -> Boolean = { false },
    maxError: Double? = null,
    maxDisagreement: Double? = null,
) : AutoCloseable {
    private val promise: SureAnswers? = promiseOf(bundle, maxError, maxDisagreement)
    private val tokenizer = bundle.tokenizer
    private val lengths = bundle.lengths

    /**
     * Whether e-mail addresses, IBANs and payment cards are found by their form and checksum, too,
     * where tags name entities and O. The model answers for no word in one of these.
     */
    public var patterns: Boolean = false

    /**
     * Answers a text.
     *
     * @param text the text, or the question
     * @param second the second text of a pair, or what the question is about; otherwise null or ""
     * @throws IllegalArgumentException if a second text is missing or not wanted
     * @throws BundleException if the model answers with what is no number
     * @throws CancellationException if it is told to stop
     */
    public fun predict(text: String, second: String? = null): Prediction {
        val task = bundle.task
        if (task.kind != TaskKind.SPAN) {
            require(if (task.pair) second != null else second.isNullOrEmpty()) {
                explain("text", if (task.pair) "a second text" else "one text", second)
            }
        }
        return when (task.kind) {
            TaskKind.SPAN -> answer(text, second.orEmpty())
            TaskKind.TOKEN -> tag(text)
            TaskKind.REGRESSION ->
                whole(text, second) {
                    Answers.checkFinite(it)
                    Outcome.Value(it.single().toDouble())
                }
            TaskKind.EMBEDDING ->
                whole(text, second) {
                    Answers.checkFinite(it)
                    Outcome.Vector(it)
                }
            TaskKind.CLASSIFICATION,
            TaskKind.MULTI_LABEL -> {
                val several = task.kind == TaskKind.MULTI_LABEL
                val prediction =
                    whole(text, second) {
                        Outcome.Labels(Answers.labels(it, bundle.manifest), several)
                    }
                val labels = (prediction.outcome as Outcome.Labels).labels
                val texts = listOfNotNull(text, second)
                val probability = Answers.confidence(labels, task.kind)
                val sure = areSure(listOf(probability), prediction.tokens, texts).single()
                prediction.copy(probability = probability, sure = sure)
            }
        }
    }

    /**
     * Puts a placeholder in the place of each entity of a text.
     *
     * A placeholder is `[TYPE_n]`: n counts the different entities of a type from 1, in the order
     * of the text, and leaves out numbers whose placeholder stands in the text already. The same
     * text of the same type has the same one. Where the file promises that a share of all entities
     * is masked, words that may be of one are hidden, too.
     *
     * @throws IllegalArgumentException if the labels of the file name no entities
     * @throws BundleException see [predict]
     */
    public fun mask(text: String): Masked {
        val tags = predict(text).outcome as? Outcome.Tags
        val entities =
            requireNotNull(tags?.entities) {
                explain("mask", "a file that tags entities", "labels ${bundle.task.labels}")
            }
        return Masked.of(text, (entities + tags.hidden).sortedBy { it.start })
    }

    /** Whether answers to a text, or its entities, of some probabilities are sure. */
    private fun areSure(
        probabilities: List<Double>,
        tokens: List<String>,
        texts: List<String>,
    ): List<Boolean?> {
        val follows = promise ?: return probabilities.map { null }
        val sure = probabilities.map { p -> follows.threshold?.let { p > it } == true }
        val isKnown = true !in sure || (isFamiliar(tokens) && isRead(texts))
        return sure.map { it && isKnown }
    }

    private fun isFamiliar(tokens: List<String>): Boolean {
        val familiarity = bundle.manifest.confidence?.familiarity ?: return true
        return familiarity.covers(tokens.map { checkNotNull(bundle.vocabulary.id(it)) })
    }

    /** Whether the vocabulary has pieces for half of the letters: of another script not. */
    private fun isRead(texts: List<String>): Boolean {
        fun letters(text: String) = text.codePoints().filter(Character::isLetter).count()
        val unknown =
            texts.sumOf { text ->
                val pieces = tokenizer.pieces(text)
                pieces.ids.indices
                    .filter { pieces.ids[it] == bundle.vocabulary.unknownId }
                    .sumOf { letters(text.substring(pieces.starts[it], pieces.ends[it])) }
            }
        return 2 * unknown <= texts.sumOf(::letters)
    }

    /** Closes the model. */
    override fun close(): Unit = runner.close()

    public companion object {
        private val checked = ConcurrentHashMap.newKeySet<String>() // files, each with a runtime

        /**
         * Opens a bundle with a runtime; reads and checks each of its files.
         *
         * If the runtime has a name ([ModelRunner.runtime]), it answers one example of golden.json
         * the first time that a process opens a file with it: it may compute an operator otherwise
         * than the runtime that the file was exported with. That takes one inference.
         *
         * @param maxError see [Predictor]
         * @param maxDisagreement see [Predictor]
         * @throws BundleException if it is not there, damaged, or for a later app, or the runtime
         *   answers otherwise than the file did where it was exported
         * @throws IllegalArgumentException if the file does not promise such an error
         * @throws ClosedByInterruptException if the thread is interrupted
         */
        public fun open(
            source: FileSource,
            name: String,
            runners: RunnerFactory,
            maxError: Double? = null,
            maxDisagreement: Double? = null,
        ): Predictor = Bundles(source).open(name).open(source, runners, maxError, maxDisagreement)

        /** Whether the runtime of a model answers as that of the export, see [open]. */
        internal fun checkRuntime(bundle: Bundle, source: FileSource, runner: ModelRunner) {
            val runtime = runner.runtime ?: return
            val file = "${bundle.manifest.model.sha256} $runtime"
            if (file in checked || bundle.manifest.goldenFile == null) return
            val check = AnswerCheck(bundle, GoldenExamples.read(bundle, source))
            val sqnrDb = check.oneSqnr(runner) ?: Double.POSITIVE_INFINITY
            val least = ParityBounds.of(bundle.manifest).sqnrDb
            if (sqnrDb < least) {
                val expected = "that of golden.json, an SQNR of at least ${least.roundToInt()} dB"
                val remedy = "It computes the file otherwise than the export's runtime: update it."
                val what = "answer of ${bundle.name} by $runtime"
                val message = explain(what, expected, "${sqnrDb.roundToInt()} dB", remedy)
                throw BundleException(BundleFault.UNSUITABLE, message)
            }
            checked += file
        }

        internal fun promiseOf(
            bundle: Bundle,
            maxError: Double?,
            maxDisagreement: Double?,
        ): SureAnswers? {
            val confidence = bundle.manifest.confidence
            if (maxDisagreement != null) {
                val offered = confidence?.agreements.orEmpty()
                require(maxError == null) {
                    explain("maxDisagreement", "no maxError beside it", maxError)
                }
                return requireNotNull(offered.find { it.maxDisagreement == maxDisagreement }) {
                    val levels = offered.map { it.maxDisagreement }
                    explain("maxDisagreement", "one of $levels", maxDisagreement)
                }
            }
            val promises = confidence?.byError.orEmpty()
            if (maxError == null && promises.isEmpty()) return null
            val wanted = maxError ?: Confidence.USUAL_MAX_ERROR
            return requireNotNull(promises.find { it.maxError == wanted }) {
                explain("maxError", "one of ${promises.map { it.maxError }}", wanted)
            }
        }
    }

    private fun whole(text: String, second: String?, outcome: (FloatArray) -> Outcome): Prediction {
        val begin = nanoTime()
        val pair = second.takeIf { bundle.task.pair }
        val encoding = tokenizer.encode(text, pair, lengths.maxLength)
        val tokenized = nanoTime()
        val outputs = run(encoding)
        val done = nanoTime()
        val result = outcome(outputs.values.single())
        return prediction(result, listOf(encoding), tokenized - begin, done - tokenized)
    }

    private fun tag(text: String): Prediction {
        val begin = nanoTime()
        val input = TaggedText(tokenizer, text, lengths.maxLength)
        val tokenized = nanoTime()
        val labels = bundle.task.labels
        val scores =
            input.windows.zip(input.rows).flatMap { (window, rows) ->
                val outputs = run(window.encoding).values.single()
                Answers.checkFinite(outputs)
                val logits = Answers.logits(outputs, bundle.manifest)
                rows.map { logits.copyOfRange(it * labels.size, (it + 1) * labels.size) }
            }
        val done = nanoTime()
        val rules = TagRules(labels)
        val byRule =
            if (patterns && rules.nameEntities && "O" in labels) Patterns.find(text)
            else emptyList()
        input.exclude(byRule, labels, scores)
        val record = bundle.manifest.confidence
        val path = TagPath(rules, scores, record?.temperature ?: 1.0)
        val counts = input.firstWords.asList().zipWithNext { first, next -> next - first }
        val tags = counts.flatMapIndexed { token, count -> rules.ofWords(path.tags[token], count) }
        val outcome = Outcome.Tags(text, input.words(), tags.map(labels::get))
        val encodings = input.windows.map { it.encoding }
        val times = tokenized - begin to done - tokenized
        val probability = exp(path.logProbabilities.sum())
        val plain =
            prediction(outcome, encodings, times.first, times.second)
                .copy(probability = probability)
        val parts = path.entities()
        val isOfEach = record != null && record.entityPromises.isNotEmpty()
        val shares = if (isOfEach) parts.map { it.probability } else listOf(probability)
        val sure = areSure(shares, plain.tokens, listOf(text))
        val answer = if (isOfEach) plain else plain.copy(sure = sure.single())
        if (!rules.nameEntities) return answer
        val entities =
            parts.mapIndexed { place, part ->
                val label = labels[path.tags[part.first]].drop(2)
                input.entity(label, part, if (isOfEach) sure[place] else null)
            }
        val runs = record?.recall?.threshold?.let { path.hidden(labels, it) }.orEmpty()
        return answer.copy(
            outcome =
                outcome.copy(
                    entities = (entities + byRule).sortedBy { it.start },
                    hidden = runs.map { (type, part) -> input.entity(type, part, false) },
                )
        )
    }

    private fun answer(text: String, context: String): Prediction {
        val begin = nanoTime()
        val spans = Spans(tokenizer, checkNotNull(bundle.task.span), lengths.maxLength)
        val question = spans.question(text, context)
        val tokenized = nanoTime()
        val outputs = question.windows.map { run(it.encoding) }
        val done = nanoTime()
        val answer =
            spans.decode(
                question,
                outputs.map { it.getValue(Spans.START) },
                outputs.map { it.getValue(Spans.END) },
            )
        val encodings = question.windows.map { it.encoding }
        return prediction(Outcome.Found(answer), encodings, tokenized - begin, done - tokenized)
    }

    private fun run(encoding: Encoding): Map<String, FloatArray> {
        if (isCancelled()) throw CancellationException("the answer was no longer wanted")
        val feed = lengths.feed(encoding, bundle.vocabulary.padId)
        return runner.run(feed.signature, feed.inputs)
    }

    private fun prediction(
        outcome: Outcome,
        encodings: List<Encoding>,
        tokenizerNs: Long,
        inferenceNs: Long,
    ): Prediction {
        val first = encodings.first()
        return Prediction(
            outcome,
            first.ids.map(bundle.vocabulary::token),
            first.wholeLength,
            lengths.all.first { it >= first.size },
            encodings.size,
            tokenizerNs / 1e6,
            inferenceNs / 1e6,
            unknownToken = bundle.vocabulary.run { token(unknownId) },
        )
    }
}
