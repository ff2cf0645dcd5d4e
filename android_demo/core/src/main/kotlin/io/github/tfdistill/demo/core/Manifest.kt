package io.github.tfdistill.demo.core

import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/** A file beside the manifest. */
@Serializable
data class FileRecord(
    val file: String,
    val sha256: String,
    @SerialName("size_bytes") val sizeBytes: Long,
)

/** One input or output of a signature. */
@Serializable data class TensorRecord(val dtype: String, val shape: List<Int>)

/** One entry point of the file: a fixed sequence length and its tensors by name. */
@Serializable
data class Signature(
    @SerialName("sequence_length") val sequenceLength: Int,
    val inputs: Map<String, TensorRecord>,
    val outputs: Map<String, TensorRecord>,
)

/** How text becomes ids. */
@Serializable
data class TokenizerRecord(
    val kind: String = WORDPIECE,
    val vocab: FileRecord,
    @SerialName("vocab_size") val vocabSize: Int,
    @SerialName("lower_case") val lowerCase: Boolean,
    @SerialName("max_length") val maxLength: Int,
) {
    companion object {
        const val WORDPIECE = "wordpiece"
    }
}

/** How a question about a text becomes windows, and logits become an answer; see [Spans]. */
@Serializable
data class SpanRecord(
    @SerialName("doc_stride") val docStride: Int,
    @SerialName("max_question_length") val maxQuestionLength: Int,
    @SerialName("max_answer_length") val maxAnswerLength: Int,
    @SerialName("n_best") val nBest: Int,
    val unanswerable: Boolean,
    @SerialName("null_threshold") val nullThreshold: Double,
)

/** What kind of answer a model gives. */
@Serializable
enum class TaskKind {
    @SerialName("classification") CLASSIFICATION,
    @SerialName("regression") REGRESSION,
    @SerialName("multi_label") MULTI_LABEL,
    @SerialName("token") TOKEN,
    @SerialName("span") SPAN,
    @SerialName("embedding") EMBEDDING,
}

/** What the answers mean. */
@Serializable
data class TaskRecord(
    val name: String,
    val kind: TaskKind,
    val labels: List<String> = emptyList(),
    val pair: Boolean = false,
    @SerialName("primary_metric") val primaryMetric: String? = null,
    val span: SpanRecord? = null,
)

/** The network, for reports. */
@Serializable
data class Architecture(
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
data class Parity(
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
data class Calibration(
    @SerialName("num_examples") val numExamples: Int,
    val seed: Long,
    val source: String = "given",
)

/** What an accelerator took of the file when it was exported, and how near its answers were. */
@Serializable
data class AcceleratorRecord(
    val name: String,
    val title: String,
    val verdict: String,
    val delegated: Map<String, Int?> = emptyMap(),
    val operators: Map<String, Int> = emptyMap(),
    @SerialName("sqnr_db") val sqnrDb: Map<String, Double?> = emptyMap(),
)

/** The whole of model.json; `tfdistill/manifest.py` says what each value means. */
@Serializable
data class Manifest(
    @SerialName("format_version") val formatVersion: Int = FORMAT_VERSION,
    val name: String,
    val created: String,
    @SerialName("tfdistill_version") val tfdistillVersion: String,
    val converter: String,
    val model: FileRecord,
    val quantization: String,
    @SerialName("quantized_layers") val quantizedLayers: Map<String, String> = emptyMap(),
    val device: String = "cpu",
    val accelerators: List<AcceleratorRecord> = emptyList(),
    val calibration: Calibration? = null,
    val signatures: Map<String, Signature>,
    val softmax: Boolean,
    val tokenizer: TokenizerRecord?,
    val task: TaskRecord?,
    @SerialName("labels_file") val labelsFile: FileRecord? = null,
    @SerialName("golden_file") val goldenFile: FileRecord? = null,
    val architecture: Architecture,
    val parity: Parity?,
) {
    companion object {
        /** The only version that this app reads. */
        const val FORMAT_VERSION = 1
        const val FILE_NAME = "model.json"
    }
}

/** A bundle in the index; its folder lies beside it. */
@Serializable
data class IndexEntry(
    val folder: String,
    val quantization: String,
    @SerialName("size_bytes") val sizeBytes: Long,
    val manifest: FileRecord,
    val tokens: FileRecord,
)

/** The whole of bundles/index.json. */
@Serializable
data class BundleIndex(
    @SerialName("format_version") val formatVersion: Int = FORMAT_VERSION,
    val bundles: Map<String, IndexEntry>,
) {
    companion object {
        const val FORMAT_VERSION = 1
    }
}
