package io.github.tfdistill.text

/** What a runtime says about a signature of a model file: tensors by name. */
public data class SignatureTensors(
    val inputs: Map<String, TensorRecord>,
    val outputs: Map<String, TensorRecord>,
)

/** Whether a manifest can be true, and describes a model that this app can use. */
internal object ManifestChecks {
    const val IDS = "input_ids"
    const val MASK = "attention_mask"
    const val TYPES = "token_type_ids"
    private const val EMBEDDING = "embedding"
    private const val OTHERS = "another one of cpu, gpu, npu"
    private val DEVICES = setOf("cpu", "gpu", "npu")
    private val INPUTS = setOf(IDS, MASK, TYPES)
    private val FILE_NAME = Regex("[A-Za-z0-9_][A-Za-z0-9._-]*")
    private val SHA256 = Regex("[0-9a-f]{64}")

    fun check(index: BundleIndex) {
        for (entry in index.bundles.values) {
            checkName("folder of a bundle", entry.folder)
            checkRecord(entry.manifest)
            checkRecord(entry.tokens)
            entry.search.orEmpty().forEach(::checkRecord)
        }
    }

    fun check(card: Manifest) {
        val owners = hashMapOf(card.model.file to card.device)
        for ((device, variant) in card.variants) {
            require(device in DEVICES - card.device, "variant of ${card.name}", OTHERS, device)
            val owner = owners.put(variant.model.file, device)
            require(owner == null, "file of variant $device", "one of its own", "that of $owner")
            check(checkNotNull(card.forDevice(device)))
        }
        val files = listOf(card.model, card.labelsFile, card.goldenFile, card.tokenizer?.vocab)
        files.filterNotNull().forEach(::checkRecord)
        val expected = "one: the app begins with text"
        val tokenizer = present(card.tokenizer, "tokenizer of ${card.name}", expected)
        require(
            tokenizer.kind in Tokenizer.KINDS,
            "kind of the tokenizer",
            "one of ${Tokenizer.KINDS.keys}",
            tokenizer.kind,
        )
        val task = present(card.task, "task of ${card.name}", "what the answers mean")
        require(
            tokenizer.prompt.isEmpty() || task.kind != TaskKind.SPAN && task.kind != TaskKind.TOKEN,
            "prompt of the tokenizer",
            "none before questions and words to tag",
            tokenizer.prompt,
        )
        require(card.signatures.isNotEmpty(), "signatures", "at least one", "none")
        val longest = card.signatures.values.maxOf { it.sequenceLength }
        require(
            tokenizer.maxLength in 3..longest,
            "max_length of the tokenizer",
            "3 to $longest, the longest signature",
            tokenizer.maxLength,
        )
        require(
            tokenizer.vocabSize in 1..card.architecture.vocabSize,
            "vocab_size",
            "at most the model's ${card.architecture.vocabSize}",
            tokenizer.vocabSize,
        )
        for ((name, signature) in card.signatures) {
            checkSignature(name, signature, task, card)
        }
        val outputs = card.signatures.values.flatMap { it.outputs.values }
        if (task.kind == TaskKind.EMBEDDING) {
            val widths = outputs.map { it.shape.last() }.toSet()
            require(widths.size == 1, "vectors of ${card.name}", "one width", widths)
        }
        card.confidence?.let(::checkConfidence)
        if (task.kind == TaskKind.SPAN) {
            present(task.span, "span of the task", "how answers are read off")
        }
    }

    /** Checks that texts have room between the special tokens of a tokenizer. */
    fun check(card: Manifest, tokenizer: Tokenizer) {
        val record = checkNotNull(card.tokenizer)
        val task = checkNotNull(card.task)
        val least = tokenizer.leastOfPair
        val fits = !task.pair || record.maxLength >= least
        require(fits, "max_length of the tokenizer", "at least $least", record.maxLength)
        if (task.kind == TaskKind.SPAN) checkSpan(checkNotNull(task.span), record.maxLength - least)
    }

    /** Checks that a model file has the signatures of its manifest, with the same tensors. */
    fun check(card: Manifest, signatures: Map<String, SignatureTensors>) {
        for ((name, expected) in card.signatures) {
            val file = card.model.file
            require(name in signatures, "signature of $file", name, signatures.keys)
            val wanted = SignatureTensors(expected.inputs, expected.outputs)
            require(
                signatures[name] == wanted,
                "signature $name of $file",
                "$wanted",
                signatures[name],
            )
        }
    }

    /** Checks that an index can be true, and belongs to the model of a bundle. */
    fun check(card: TextIndexCard, bundle: Bundle) {
        listOf(card.model, card.vectors, card.texts).forEach(::checkRecord)
        val expected = bundle.manifest.model.sha256
        require(card.model.sha256 == expected, "model of the index", expected, card.model.sha256)
        val signature = bundle.manifest.signatures.values.first()
        val width = signature.outputs.values.first().shape.last()
        require(bundle.task.kind == TaskKind.EMBEDDING, "task", "embedding", bundle.task.kind)
        require(card.modelWidth == width, "model_width", "$width", card.modelWidth)
        val most = minOf(width, TextIndexCard.MOST_FEATURES)
        require(card.width in 1..most, "width", "1 to $most", card.width)
        require(card.count >= 1, "count", "at least 1", card.count)
        val size = card.count.toLong() * card.width
        require(size == card.vectors.sizeBytes, "size of the vectors", "$size", card.vectors)
        require(size <= Int.MAX_VALUE, "size of the vectors", "at most 2^31 - 1", size)
        val threshold = card.threshold
        require(threshold == null || threshold in -1.0..1.0, "threshold", "-1 to 1", threshold)
    }

    private fun checkSignature(
        name: String,
        signature: Signature,
        task: TaskRecord,
        card: Manifest,
    ) {
        val length = signature.sequenceLength
        require(length >= 3, "length of $name", "at least 3", length)
        require(
            IDS in signature.inputs && INPUTS.containsAll(signature.inputs.keys),
            "inputs of $name",
            "$IDS and perhaps $MASK and $TYPES",
            signature.inputs.keys,
        )
        for ((input, tensor) in signature.inputs) {
            val expected = TensorRecord("int32", listOf(1, length))
            require(tensor == expected, "input $input of $name", "$expected", tensor)
        }
        val labels = task.labels.size
        val shape =
            when (task.kind) {
                TaskKind.SPAN -> listOf(1, length)
                TaskKind.TOKEN -> listOf(1, length, labels)
                TaskKind.REGRESSION -> listOf(1, 1)
                TaskKind.EMBEDDING ->
                    listOf(1, signature.outputs[EMBEDDING]?.shape?.lastOrNull() ?: 0)
                else -> listOf(1, labels)
            }
        val outputs =
            when {
                task.kind == TaskKind.SPAN -> setOf(Spans.START, Spans.END)
                task.kind == TaskKind.EMBEDDING -> setOf(EMBEDDING)
                card.softmax -> setOf("scores")
                else -> setOf("logits")
            }
        require(
            signature.outputs.keys == outputs,
            "outputs of $name",
            "$outputs",
            signature.outputs.keys,
        )
        for ((output, tensor) in signature.outputs) {
            val expected = TensorRecord("float32", shape)
            require(tensor == expected, "output $output of $name", "$expected", tensor)
        }
    }

    private fun checkConfidence(confidence: Confidence) {
        val temperature = confidence.temperature
        val usable = temperature > 0 && temperature.isFinite()
        require(usable, "temperature", "a number above 0", temperature)
        confidence.familiarity?.let {
            val right = it.threshold.isFinite() && it.firstWord >= 0 && it.numPieces > 0
            require(right && it.isReadable(), "familiarity", "counts of pieces and pairs", "others")
        }
        val least = confidence.recall?.threshold ?: 0.0
        require(least in 0.0..1.0, "threshold of the recall", "0 to 1", least)
        val promises = confidence.promises + confidence.entityPromises
        for (promise in promises + confidence.agreements) {
            val threshold = promise.threshold ?: 0.0
            require(threshold in 0.0..1.0, "threshold of a promise", "0 to 1", threshold)
            val (name, level) =
                when (promise) {
                    is Promise -> "max_error" to promise.maxError
                    is ModelAgreement -> "max_disagreement" to promise.maxDisagreement
                }
            require(level > 0 && level < 1, "$name of a promise", "0 to 1", level)
        }
    }

    private fun checkSpan(span: SpanRecord, room: Int) {
        require(
            span.maxQuestionLength in 1 until room,
            "max_question_length",
            "1 to ${room - 1}",
            span.maxQuestionLength,
        )
        require(
            minOf(span.docStride, span.maxAnswerLength, span.nBest) >= 1,
            "doc_stride, max_answer_length and n_best",
            "at least 1",
            span,
        )
    }

    private fun checkRecord(record: FileRecord) {
        checkName("name of a file", record.file)
        require(
            SHA256.matches(record.sha256),
            "sha256 of ${record.file}",
            "64 digits",
            record.sha256,
        )
        require(record.sizeBytes >= 0, "size of ${record.file}", "at least 0", record.sizeBytes)
    }

    fun checkName(what: String, name: String) =
        require(FILE_NAME.matches(name), what, "letters, digits, '.', '_' and '-'", name)

    private fun <T : Any> present(value: T?, what: String, expected: String): T {
        require(value != null, what, expected, null)
        return checkNotNull(value)
    }

    private fun require(holds: Boolean, what: String, expected: String, received: Any?) {
        if (holds) return
        throw BundleException(BundleFault.UNSUITABLE, explain(what, expected, received))
    }
}
