package io.github.tfdistill.text

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/**
 * A file beside the manifest.
 *
 * @property file its name
 * @property sha256 64 hexadecimal digits
 * @property sizeBytes its size
 */
@Serializable
@ConsistentCopyVisibility
public data class FileRecord
internal constructor(
    public val file: String,
    public val sha256: String,
    @SerialName("size_bytes") public val sizeBytes: Long,
)

/** One input or output of a signature: "int32" or "float32", and its shape. */
@Serializable public data class TensorRecord(val dtype: String, val shape: List<Int>)

/** One entry point of the file: a fixed sequence length and its tensors by name. */
@Serializable
internal data class Signature(
    @SerialName("sequence_length") val sequenceLength: Int,
    val inputs: Map<String, TensorRecord>,
    val outputs: Map<String, TensorRecord>,
)

/**
 * How text becomes ids.
 *
 * @property kind one of [Tokenizer.KINDS]
 * @property vocab vocab.txt, or of a Unigram tokenizer tokenizer.json
 * @property lowerCase says nothing of a Unigram tokenizer, whose file has its normalisation
 * @property prompt what is put before every text, or every first one, before it is tokenized
 */
@Serializable
internal data class TokenizerRecord(
    val kind: String = WORDPIECE,
    val vocab: FileRecord,
    @SerialName("vocab_size") val vocabSize: Int,
    @SerialName("lower_case") val lowerCase: Boolean,
    @SerialName("max_length") val maxLength: Int,
    val truncation: Truncation = Truncation.END,
    val prompt: String = "",
) {
    companion object {
        const val WORDPIECE = "wordpiece"
    }
}

/** How a question about a text becomes windows, and logits become an answer; see [Spans]. */
@Serializable
internal data class SpanRecord(
    @SerialName("doc_stride") val docStride: Int,
    @SerialName("max_question_length") val maxQuestionLength: Int,
    @SerialName("max_answer_length") val maxAnswerLength: Int,
    @SerialName("n_best") val nBest: Int,
    val unanswerable: Boolean,
    @SerialName("null_threshold") val nullThreshold: Double,
)

/** What kind of answer a model gives. */
@Serializable
public enum class TaskKind {
    @SerialName("classification") CLASSIFICATION,
    @SerialName("regression") REGRESSION,
    @SerialName("multi_label") MULTI_LABEL,
    @SerialName("token") TOKEN,
    @SerialName("span") SPAN,
    @SerialName("embedding") EMBEDDING,
}

/**
 * What the answers mean.
 *
 * @property name such as "sst2"
 * @property kind the kind of the answers
 * @property labels of classes or tags, in the order of the outputs; empty where there are none
 * @property pair whether it reads two texts
 */
@Serializable
@ConsistentCopyVisibility
public data class TaskRecord
internal constructor(
    public val name: String,
    public val kind: TaskKind,
    public val labels: List<String> = emptyList(),
    public val pair: Boolean = false,
    @SerialName("primary_metric") internal val primaryMetric: String? = null,
    internal val span: SpanRecord? = null,
)

/** The network, for reports. */
@Serializable
internal data class Architecture(
    val family: String,
    @SerialName("num_layers") val numLayers: Int,
    @SerialName("hidden_size") val hiddenSize: Int,
    @SerialName("num_heads") val numHeads: Int,
    @SerialName("intermediate_size") val intermediateSize: Int,
    @SerialName("vocab_size") val vocabSize: Int,
    @SerialName("num_parameters") val numParameters: Long,
    val flops: Map<String, Long> = emptyMap(),
    @SerialName("head_size") val headSize: Int? = null,
)

/** How far the file agrees with the Keras model that it was made from. */
@Serializable
internal data class Parity(
    @SerialName("num_examples") val numExamples: Int,
    val inputs: String = "real",
    @SerialName("output_rms") val outputRms: Double? = null,
    @SerialName("max_abs_error") val maxAbsError: Double,
    @SerialName("mean_abs_error") val meanAbsError: Double,
    @SerialName("sqnr_db") val sqnrDb: Double?,
    @SerialName("argmax_agreement") val argmaxAgreement: Double?,
    @SerialName("min_cosine") val minCosine: Double? = null,
    @SerialName("neighbour_agreement") val neighbourAgreement: Double? = null,
    @SerialName("model_metrics") val modelMetrics: Map<String, Double> = emptyMap(),
    @SerialName("file_metrics") val fileMetrics: Map<String, Double> = emptyMap(),
    val bounds: Map<String, Double> = emptyMap(),
)

/** The examples that the ranges of a static quantization were measured on. */
@Serializable
internal data class Calibration(
    @SerialName("num_examples") val numExamples: Int,
    val seed: Long,
    val source: String = "given",
)

/** What says which answers are sure: those whose confidence is above [threshold]. */
internal sealed interface SureAnswers {
    val threshold: Double? // null: no threshold keeps what is promised
}

/** Of the answers whose confidence is above [threshold] at most [maxError] are wrong. */
@Serializable
internal data class Promise(
    @SerialName("max_error") val maxError: Double,
    val rows: Int,
    override val threshold: Double? = null,
    val coverage: Double? = null,
    val error: Double? = null,
    @SerialName("rows_needed") val rowsNeeded: Int? = null,
) : SureAnswers

/** At most [maxDisagreement] of all requests get a sure answer unlike that of a large model. */
@Serializable
internal data class ModelAgreement(
    @SerialName("max_disagreement") val maxDisagreement: Double,
    override val threshold: Double? = null,
) : SureAnswers

/** Words whose 1 - P(O) is above [threshold] are masked, so that enough entities are. */
@Serializable internal data class Recall(val threshold: Double? = null)

/**
 * How sure the answers of the file are; `tfdistill/manifest/confidence.py` says what each value
 * means.
 */
@Serializable
internal data class Confidence(
    val temperature: Double,
    @SerialName("num_examples") val numExamples: Int,
    val promises: List<Promise> = emptyList(),
    val familiarity: Familiarity? = null,
    val agreements: List<ModelAgreement> = emptyList(),
    @SerialName("entity_promises") val entityPromises: List<Promise> = emptyList(),
    val recall: Recall? = null,
    val sha256: String, // a bundle's index has that of the whole manifest
) {
    /** The promises of entities, or those of whole answers. */
    val byError: List<Promise>
        get() = entityPromises.ifEmpty { promises }

    companion object {
        const val USUAL_MAX_ERROR = 0.05
    }
}

/** Another file of the same model, for another kind of processor. */
@Serializable
internal data class FileVariant(
    val model: FileRecord,
    val quantization: String,
    @SerialName("quantized_layers") val quantizedLayers: Map<String, String> = emptyMap(),
    val calibration: Calibration? = null,
    val confidence: Confidence? = null,
    val signatures: Map<String, Signature>,
    @SerialName("golden_file") val goldenFile: FileRecord? = null,
    val parity: Parity?,
)

/**
 * The whole of model.json; `tfdistill/manifest/__init__.py` says what each value means.
 *
 * @property name of the export
 * @property created ISO 8601
 * @property tfdistillVersion the version that exported it
 * @property model the .tflite file
 * @property quantization such as "dynamic_wi8_afp32"
 * @property device what the file was exported for: "cpu", "gpu", or of earlier versions "npu"
 */
@Serializable
@ConsistentCopyVisibility
public data class Manifest
internal constructor(
    @SerialName("format_version") internal val formatVersion: Int = FORMAT_VERSION,
    public val name: String,
    public val created: String,
    @SerialName("tfdistill_version") public val tfdistillVersion: String,
    internal val converter: String,
    public val model: FileRecord,
    public val quantization: String,
    @SerialName("quantized_layers") internal val quantizedLayers: Map<String, String> = emptyMap(),
    public val device: String = "cpu",
    internal val calibration: Calibration? = null,
    internal val confidence: Confidence? = null,
    internal val signatures: Map<String, Signature>,
    internal val softmax: Boolean,
    internal val tokenizer: TokenizerRecord?,
    internal val task: TaskRecord?,
    @SerialName("labels_file") internal val labelsFile: FileRecord? = null,
    @SerialName("golden_file") internal val goldenFile: FileRecord? = null,
    internal val architecture: Architecture,
    @SerialName("text_lengths") internal val textLengths: Map<Int, Int>? = null,
    internal val parity: Parity?,
    internal val variants: Map<String, FileVariant> = emptyMap(),
) {
    /** What there is to say about the file for a kind of processor alone; null if there is none. */
    internal fun forDevice(wanted: String): Manifest? {
        if (wanted == device) return copy(variants = emptyMap())
        val variant = variants[wanted] ?: return null
        return copy(
            name = "$name-$wanted",
            device = wanted,
            model = variant.model,
            quantization = variant.quantization,
            quantizedLayers = variant.quantizedLayers,
            calibration = variant.calibration,
            confidence = variant.confidence,
            signatures = variant.signatures,
            goldenFile = variant.goldenFile,
            parity = variant.parity,
            variants = emptyMap(),
        )
    }

    internal companion object {
        /** The only version that this library reads. */
        const val FORMAT_VERSION = 1
        const val FILE_NAME = "model.json"
    }
}

/** A bundle in the index; its folder lies beside it. */
@Serializable
internal data class IndexEntry(
    val folder: String,
    val quantization: String,
    @SerialName("size_bytes") val sizeBytes: Long,
    val manifest: FileRecord,
    val tokens: FileRecord,
    val device: String? = null, // of a variant; the others have the manifest's own file
    val search: List<FileRecord>? = null, // search/index.json, or none; null: not recorded
)

/** The whole of bundles/index.json. */
@Serializable
internal data class BundleIndex(
    @SerialName("format_version") val formatVersion: Int,
    val bundles: Map<String, IndexEntry>,
) {
    companion object {
        const val FORMAT_VERSION = 1
    }
}
