package io.github.tfdistill.demo

import android.content.Context
import android.content.res.Resources
import android.graphics.Typeface
import android.text.SpannableStringBuilder
import android.text.Spanned
import android.text.style.ForegroundColorSpan
import android.text.style.StyleSpan
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Answered
import io.github.tfdistill.benchmark.CaseSummary
import io.github.tfdistill.benchmark.Conditions
import io.github.tfdistill.benchmark.Device
import io.github.tfdistill.benchmark.Runtime
import io.github.tfdistill.benchmark.Summary
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.BundleFault
import io.github.tfdistill.text.DeviceParity
import io.github.tfdistill.text.Entity
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Scored

// What the app says, in the user's language: every sentence that is made of values.

private const val MOST_TOKENS = 512
private const val MOST_TABLE_LABELS = 20
private const val MOST_EXAMPLE_CHARACTERS = 120
private const val KILOBYTE = 1e3
private const val MEGABYTE = 1e6
private const val GIGABYTE = 1e9

/** What is wrong with a bundle, and what to do. */
fun Resources.fault(error: BundleException): String {
    val text =
        when (error.fault) {
            BundleFault.MISSING -> R.string.fault_missing
            BundleFault.MALFORMED -> R.string.fault_malformed
            BundleFault.NEWER -> R.string.fault_newer
            BundleFault.TAMPERED -> R.string.fault_tampered
            BundleFault.UNSUITABLE -> R.string.fault_unsuitable
        }
    val details = getString(R.string.details, error.message)
    return listOf(getString(R.string.fault_title), getString(text), details).joinToString("\n\n")
}

/** What there is to say of a state that has no result; null where there is nothing. */
fun Resources.message(state: TextState<*>): String? =
    when {
        state.running -> getString(R.string.running)
        state.fault != null -> fault(state.fault)
        state.error != null -> getString(R.string.failed, state.error)
        state.notice != null -> getString(state.notice)
        else -> null
    }

fun Resources.probability(label: Scored): String =
    getString(R.string.probability, label.label, 100 * label.probability)

/** A text with its entities, sure ones marked: "[Mary|PER: 98.0 % ✓] was here". */
private fun Resources.marked(text: String, entities: List<Entity>): String =
    entities.foldRight(text) { entity, rest ->
        val label = probability(Scored(entity.label, entity.probability))
        val mark = if (entity.sure == true) " ✓" else ""
        rest.replaceRange(entity.start, entity.end, "[${entity.text}|$label$mark]")
    }

/** The outcome: of labels those that apply, with their probabilities. */
fun Resources.headline(outcome: Outcome): String =
    when (outcome) {
        is Outcome.Labels ->
            outcome.labels
                .take(outcome.chosen.size)
                .joinToString("\n", transform = ::probability)
                .ifEmpty { getString(R.string.no_label) }
        is Outcome.Vector -> getString(R.string.vector, outcome.values.size)
        is Outcome.Value -> "%.4f".format(outcome.value)
        is Outcome.Tags ->
            outcome.entities?.let { marked(outcome.text, it) }
                ?: outcome.words.zip(outcome.tags) { word, tag -> "$word  $tag" }.joinToString("\n")
        is Outcome.Found -> outcome.answer.text.ifEmpty { getString(R.string.no_answer) }
    }

/** How an outcome came about. */
fun Resources.details(prediction: Prediction): String {
    val (tokens, whole) = prediction.tokens.size to prediction.wholeLength
    val lines = ArrayList<String>()
    prediction.sure?.let { lines += getString(if (it) R.string.sure else R.string.not_sure) }
    lines += getString(R.string.latency, prediction.tokenizerMs, prediction.inferenceMs)
    lines += getString(R.string.length, tokens, prediction.sequenceLength)
    if (prediction.inferences > 1) lines += getString(R.string.windows, prediction.inferences)
    if (prediction.inferences == 1 && whole > tokens) {
        lines += getString(R.string.cut, tokens, whole)
    }
    val unknown = prediction.tokens.count { it == prediction.unknownToken }
    if (unknown > 0) lines += getString(R.string.unknown, unknown, prediction.unknownToken)
    return lines.joinToString("\n")
}

/** What the model read, piece by piece; what it cannot read stands out. */
fun Context.tokens(prediction: Prediction): CharSequence {
    val tokens = prediction.tokens
    val text = SpannableStringBuilder(getString(R.string.tokens))
    for (token in tokens.take(MOST_TOKENS)) {
        text.append(' ')
        val begin = text.length
        text.append(token)
        if (token != prediction.unknownToken) continue
        val colour = ForegroundColorSpan(getColor(R.color.warning))
        for (span in listOf(colour, StyleSpan(Typeface.BOLD))) {
            text.setSpan(span, begin, text.length, Spanned.SPAN_EXCLUSIVE_EXCLUSIVE)
        }
    }
    if (tokens.size > MOST_TOKENS) text.append(" …")
    return text
}

fun Resources.headline(result: SearchResult): String {
    val count = result.card.count
    if (result.isNear) return getString(R.string.nearest, count)
    val best = result.matches.first().score
    return getString(R.string.not_near, best, result.card.threshold, count)
}

fun Resources.details(result: SearchResult): String =
    getString(R.string.search_time, result.searchMs, result.card.count) +
        "\n" +
        details(result.prediction)

/** The table of two answers: what a row is of, the first model's value, the second's. */
fun Resources.comparison(answers: List<Compared>): List<List<String>> {
    if (answers.isEmpty()) return emptyList()
    fun row(title: Int, value: (Compared) -> String) = listOf(getString(title)) + answers.map(value)
    fun milliseconds(ms: Double) = getString(R.string.milliseconds, ms)
    val headline =
        row(R.string.answer) {
            when (val outcome = it.prediction.outcome) {
                is Outcome.Labels ->
                    outcome.chosen.joinToString().ifEmpty { getString(R.string.no_label) }
                else -> headline(outcome)
            }
        }
    return listOf(row(R.string.model) { it.bundle.name }, headline) +
        probabilities(answers) +
        listOf(
            row(R.string.model_time) { milliseconds(it.prediction.inferenceMs) },
            row(R.string.tokenizer_time) { milliseconds(it.prediction.tokenizerMs) },
            row(R.string.size) {
                getString(R.string.kilobytes, it.bundle.manifest.model.sizeBytes / KILOBYTE)
            },
            row(R.string.quantization) { it.bundle.manifest.quantization },
            row(R.string.chosen_length) { "${it.prediction.sequenceLength}" },
        )
}

/** The probability of every label that one of them has, in the order of the first. */
private fun Resources.probabilities(answers: List<Compared>): List<List<String>> {
    val scored = answers.map { (it.prediction.outcome as? Outcome.Labels)?.labels.orEmpty() }
    val names = scored.flatten().map { it.label }.distinct()
    fun percent(labels: List<Scored>, name: String) =
        labels
            .firstOrNull { it.label == name }
            ?.let { getString(R.string.percent, 100 * it.probability) }
    val rows =
        names.take(MOST_TABLE_LABELS).map { name ->
            listOf(name) + scored.map { percent(it, name).orEmpty() }
        }
    if (names.size <= MOST_TABLE_LABELS) return rows
    val note = getString(R.string.some_labels, MOST_TABLE_LABELS, names.size)
    return rows + listOf(listOf(note, "", ""))
}

/** What there is to say of the GPU. */
fun Resources.note(note: GpuNote): String =
    when (note) {
        is GpuNote.Comparing -> getString(R.string.gpu_comparing, note.done, note.of)
        is GpuNote.Agrees -> {
            val (error, allowed) = percents(note.parity)
            getString(R.string.gpu_agrees, note.parity.numAnswers, error, allowed)
        }
        is GpuNote.Differs -> difference(note.parity)
        is GpuNote.Refused -> getString(R.string.gpu_refused, note.reason)
        GpuNote.Stopped -> getString(R.string.gpu_stopped)
        GpuNote.Ended -> getString(R.string.gpu_ended)
    }

private fun percents(parity: DeviceParity) = 100 * parity.maxError to 100 * parity.bounds.maxError

private fun Resources.difference(parity: DeviceParity): String {
    if (parity.unchecked.isNotEmpty()) {
        return getString(R.string.gpu_unchecked, parity.unchecked.joinToString())
    }
    val (error, allowed) = percents(parity)
    val example = (parity.changed.firstOrNull() ?: parity.worst).take(MOST_EXAMPLE_CHARACTERS)
    val (changed, count) = parity.changed.size to parity.numAnswers
    return getString(R.string.gpu_differs, error, allowed, changed, count, example)
}

/** What an answer was computed on. */
fun Resources.computedOn(by: ComputedOn?): String =
    when {
        by == null || by.accelerator == Accelerator.CPU -> getString(R.string.on_cpu)
        by.shared -> getString(R.string.on_both)
        else -> getString(R.string.on_gpu)
    }

fun Resources.title(case: CaseSummary): String {
    val onGpu = case.delegate == Accelerator.GPU.delegate
    val title = if (onGpu) R.string.case_gpu else R.string.case_title
    return getString(title, case.sequenceLength, case.threads)
}

fun Resources.figures(case: CaseSummary, times: Summary): String =
    listOfNotNull(
            getString(R.string.percentiles, times.p50Ms, times.p90Ms, times.p95Ms, times.p99Ms),
            getString(R.string.extremes, times.minMs, times.maxMs, times.n),
            case.peakRssBytes?.let { getString(R.string.memory, it / MEGABYTE) },
            if (case.throttled) getString(R.string.throttled) else null,
        )
        .joinToString("\n")

/** Android's thermal status in words; null where it does not tell. */
fun Resources.heat(status: Int?): String? =
    status?.let { getStringArray(R.array.thermal).getOrNull(it) }

/** Whether this device answers as the computer that exported the model. */
fun Resources.answers(row: Answered): String {
    val (length, threads) = row.sequenceLength to row.threads
    return getString(R.string.answers, length, threads, row.numExamples, row.maxAbsError)
}

/** The device page: a line for each fact, and that Android does not tell an app where it is so. */
fun Resources.facts(device: Device, runtime: Runtime, now: Conditions): String {
    fun clocks(mhz: List<Double>) = mhz.joinToString(" ") { "%.0f".format(it) }
    val facts =
        listOf(
            R.string.device_name to device.name,
            R.string.soc to device.soc,
            R.string.system to device.os,
            R.string.kernel to device.kernel,
            R.string.abi to device.abi,
            R.string.cores to device.coresLogical?.toString(),
            R.string.highest_clocks to clocks(device.maxFrequenciesMhz),
            R.string.clocks_now to clocks(now.frequenciesMhz),
            R.string.device_memory to
                device.memoryBytes?.let { getString(R.string.gigabytes, it / GIGABYTE) },
            R.string.heat to heat(now.thermalStatus),
            R.string.battery to now.batteryPercent?.let { getString(R.string.percent, it) },
            R.string.battery_temperature to
                now.batteryTemperatureC?.let { getString(R.string.celsius, it) },
            R.string.runtime to runtime.packages["litert"],
            R.string.app to listOfNotNull(runtime.version, runtime.build).joinToString(" "),
        )
    val unknown = getString(R.string.unknown_fact)
    val lines =
        facts.map { (title, value) -> "${getString(title)}: ${value?.ifEmpty { null } ?: unknown}" }
    return (lines + getString(R.string.gpu_note)).joinToString("\n\n")
}
