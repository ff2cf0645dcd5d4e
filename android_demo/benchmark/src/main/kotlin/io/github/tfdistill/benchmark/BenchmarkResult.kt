package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Manifest
import java.io.OutputStream
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject

private val json = Json { prettyPrint = true }

/** Writes a message in the way of all of tfdistill's: "what: expected E, received R." */
internal fun explain(what: String, expected: String, received: Any?): String =
    "$what: expected $expected, received $received."

/** The state of a device at a moment; what it does not tell is null or empty. */
@Serializable
data class Conditions(
    val time: String,
    @SerialName("thermal_status") val thermalStatus: Int? = null,
    @SerialName("battery_percent") val batteryPercent: Double? = null,
    @SerialName("battery_temperature_c") val batteryTemperatureC: Double? = null,
    val charging: Boolean? = null,
    @SerialName("frequencies_mhz") val frequenciesMhz: List<Double> = emptyList(),
)

/** What was measured on. */
@Serializable
data class Device(
    val name: String,
    val fingerprint: String? = null,
    val soc: String? = null,
    val abi: String? = null,
    val os: String? = null,
    val kernel: String? = null,
    @SerialName("cores_logical") val coresLogical: Int? = null,
    @SerialName("max_frequencies_mhz") val maxFrequenciesMhz: List<Double> = emptyList(),
    @SerialName("memory_bytes") val memoryBytes: Long? = null,
)

/** What ran the file. */
@Serializable
data class Runtime(
    val name: String,
    val version: String? = null,
    val build: String? = null,
    val packages: Map<String, String?> = emptyMap(),
)

/** What a model was fed with. */
@Serializable
data class Inputs(val source: String, @SerialName("num_examples") val numExamples: Int)

/** A file that was measured. */
@Serializable
data class ModelFile(
    val name: String,
    val file: String,
    val sha256: String,
    @SerialName("size_bytes") val sizeBytes: Long,
    val quantization: String? = null,
    val manifest: Manifest? = null,
    val inputs: Inputs,
)

/** One repetition. */
@Serializable
data class Measurement(
    val model: String,
    @SerialName("sequence_length") val sequenceLength: Int,
    val threads: Int,
    val delegate: String,
    val signature: String? = null,
    val repetition: Int,
    val started: String? = null,
    @SerialName("warmup_ms") val warmupMs: List<Double> = emptyList(),
    @SerialName("samples_ms") val samplesMs: List<Double> = emptyList(),
    @SerialName("block_runs") val blockRuns: Int? = null,
    @SerialName("init_ms") val initMs: Double? = null,
    @SerialName("first_inference_ms") val firstInferenceMs: Double? = null,
    @SerialName("baseline_rss_bytes") val baselineRssBytes: Long? = null,
    @SerialName("peak_rss_bytes") val peakRssBytes: Long? = null,
    val before: Conditions? = null,
    val after: Conditions? = null,
    @SerialName("left_out") val leftOut: String = "",
)

/** One repetition of the way from text to answer. */
@Serializable
data class TextMeasurement(
    val model: String,
    val threads: Int,
    val delegate: String,
    val repetition: Int,
    @SerialName("tokenizer_ms") val tokenizerMs: List<Double>,
    @SerialName("samples_ms") val samplesMs: List<Double>,
    val words: Int? = null,
    val tokens: Int? = null,
)

/** The answers of the device against those of a computer, on the same examples. */
@Serializable
data class Answered(
    val model: String,
    @SerialName("sequence_length") val sequenceLength: Int,
    val threads: Int,
    val delegate: String,
    @SerialName("num_examples") val numExamples: Int,
    @SerialName("max_abs_error") val maxAbsError: Double,
    @SerialName("sqnr_db") val sqnrDb: Double?,
    @SerialName("argmax_agreement") val argmaxAgreement: Double?,
)

/** What was not measured, and why. */
@Serializable data class Failure(val what: String, val error: String)

/**
 * benchmark.json as `tfdistill/benchmark/schema.py` describes it, without what follows from the
 * measurements: the program that reads it computes that.
 */
@Serializable
data class BenchmarkResult(
    @SerialName("format_version") val formatVersion: Int,
    val kind: String,
    val backend: String,
    val created: String,
    @SerialName("tfdistill_version") val tfdistillVersion: String,
    val command: List<String> = emptyList(),
    val settings: JsonObject = JsonObject(emptyMap()),
    val device: Device,
    val runtime: Runtime,
    val before: Conditions? = null,
    val after: Conditions? = null,
    val models: List<ModelFile>,
    val measurements: List<Measurement> = emptyList(),
    val texts: List<TextMeasurement> = emptyList(),
    val answers: List<Answered> = emptyList(),
    val failures: List<Failure> = emptyList(),
    val notes: List<String> = emptyList(),
) {
    /** Writes it as UTF-8. */
    fun write(stream: OutputStream) =
        stream.write(json.encodeToString(serializer(), this).toByteArray(Charsets.UTF_8))

    companion object {
        const val FORMAT_VERSION = 2
        const val BACKEND = "app"
        const val PHONE = "phone"
        const val EMULATOR = "emulator"
        const val CPU = "xnnpack"
        const val GPU = "gpu"

        /**
         * Reads what [write] wrote.
         *
         * @throws IllegalArgumentException if another version of the app wrote it
         */
        fun read(content: String): BenchmarkResult =
            json.decodeFromString(serializer(), content).also {
                require(it.formatVersion == FORMAT_VERSION)
            }
    }
}

/** How far a benchmark is; written after each measurement. */
@Serializable
data class BenchmarkState(
    @SerialName("format_version") val formatVersion: Int,
    val state: String,
    val finished: Int,
    val of: Int,
    val error: String?,
) {
    fun toJson(): String = json.encodeToString(serializer(), this)

    companion object {
        const val FORMAT_VERSION = 1
        const val RUNNING = "running"
        const val DONE = "done"
        const val FAILED = "failed"

        /**
         * Reads what [toJson] wrote.
         *
         * @throws IllegalArgumentException if another version of the app wrote it
         */
        fun read(content: String): BenchmarkState =
            json.decodeFromString(serializer(), content).also {
                require(it.formatVersion == FORMAT_VERSION)
            }
    }
}
