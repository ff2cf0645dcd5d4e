package io.github.tfdistill.text

import java.io.File
import java.io.FileNotFoundException
import java.nio.ByteOrder
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder

class BundlesTest {
    @get:Rule val temporary = TemporaryFolder()
    private lateinit var copy: Copy
    private val name = "pairs-float32"

    private companion object {
        val DOT_ALL = RegexOption.DOT_MATCHES_ALL
        val TOKENIZER = Regex("\"tokenizer\": .*?\"task\"", DOT_ALL)
    }

    @Before
    fun copy() {
        copy = Copy(temporary.newFolder())
    }

    private fun fails(fault: BundleFault, vararg words: String, bundle: String = name) {
        val error = assertThrows(BundleException::class.java) { Bundles(copy).open(bundle) }
        assertEquals(error.message, fault, error.fault)
        for (word in words) assertTrue("$word in ${error.message}", word in error.message.orEmpty())
    }

    @Test
    fun `a model that the runtime does not run is a fault of the bundle`() {
        val bundle = Bundles(copy).open(name)
        for (thrown in
            listOf(
                IllegalArgumentException("no op of version 9"),
                IllegalStateException("no op of version 9"),
            )) {
            val error =
                assertThrows(BundleException::class.java) {
                    bundle.openModel(copy) { throw thrown }
                }
            assertEquals(BundleFault.UNSUITABLE, error.fault)
            assertTrue(error.message, "no op of version 9" in error.message.orEmpty())
        }
        val error =
            assertThrows(BundleException::class.java) {
                bundle.openModel({ throw FileNotFoundException(it) }) { error("not opened") }
            }
        assertEquals(BundleFault.MISSING, error.fault)
    }

    @Test
    fun `a source of one's own gives buffers that runtimes take`() {
        val buffer = FileSource { byteArrayOf(1, 2, 3).inputStream() }.map("a")
        assertTrue(buffer.isDirect && buffer.order() == ByteOrder.nativeOrder())
        assertEquals(listOf<Byte>(1, 2, 3), List(buffer.remaining()) { buffer.get() })
    }

    /** Adds a variant with a copy of the model, "model" and other bytes behind it. */
    private fun addVariant(device: String = "gpu", edit: (String) -> String = { it }) {
        val file = "model-$device.tflite"
        val bytes = copy.open("bundles/$name/model.tflite").readBytes() + device.toByteArray()
        copy.put("bundles/$name/$file", bytes)
        copy.editManifest(name) { card ->
            val whole = Json.parseToJsonElement(card).jsonObject
            val model =
                """{"file": "$file", "sha256": "${sha256(bytes)}", "size_bytes": ${bytes.size}}"""
            val values =
                listOf("signatures", "golden_file", "parity").joinToString { key ->
                    "\"$key\": ${whole.getValue(key)}"
                }
            val variant =
                """"$device": {"model": $model, "quantization": "static_wi8_ai8", $values}"""
            card.trimEnd().removeSuffix("}") + edit(""", "variants": {$variant}}""")
        }
        copy.editIndex { index ->
            val whole = Json.parseToJsonElement(index).jsonObject.getValue("bundles").jsonObject
            val entry = whole.getValue(name).toString().removeSuffix("}")
            index.replace(
                "\"bundles\": {",
                "\"bundles\": {\"$name-$device\": $entry, \"device\": \"$device\"},",
            )
        }
    }

    @Test
    fun `a bundle has a file for each device, under a name of its own too`() {
        addVariant()
        val bundles = Bundles(copy)
        assertTrue("$name-gpu" in bundles.names())
        val whole = bundles.open(name)
        assertEquals("bundles/$name/model.tflite", whole.modelPath)
        assertEquals(null, whole.forDevice("npu"))
        assertEquals(whole.modelPath, whole.forDevice("cpu")?.modelPath)
        for (variant in listOf(bundles.open("$name-gpu"), checkNotNull(whole.forDevice("gpu")))) {
            assertEquals("$name-gpu", variant.name)
            assertEquals("bundles/$name/model-gpu.tflite", variant.modelPath)
            assertEquals("static_wi8_ai8", variant.manifest.quantization)
            assertEquals("gpu", variant.manifest.device)
        }
    }

    @Test
    fun `a bundle of an earlier version with a file for an NPU is read`() {
        addVariant("npu") {
            val taken = """{"name": "intel-npu", "title": "", "verdict": "whole"}"""
            it.replace("\"parity\":", "\"accelerators\": [$taken], \"parity\":")
        }
        val bundles = Bundles(copy)
        assertEquals("model.tflite", bundles.open(name).manifest.model.file)
        assertEquals("npu", bundles.open("$name-npu").manifest.device)
    }

    @Test
    fun `a variant that is missing, changed or of another target is refused`() {
        addVariant()
        copy.put("bundles/$name/model-gpu.tflite", byteArrayOf(1))
        fails(BundleFault.TAMPERED, "model-gpu.tflite")
        fails(BundleFault.TAMPERED, "model-gpu.tflite", bundle = "$name-gpu")
        File(copy.folder, "bundles/$name/model-gpu.tflite").delete()
        fails(BundleFault.MISSING, "model-gpu.tflite")
        val edits =
            listOf(
                { s: String -> s.replace("\"gpu\": {", "\"cpu\": {") } to "variant of",
                { s: String -> s.replace("\"gpu\": {", "\"tpu\": {") } to "variant of",
                { s: String -> s.replace("model-gpu", "model") } to "file of variant gpu",
                { s: String -> s.replace("model-gpu", "../model-gpu") } to "name of a file",
            )
        for ((edit, word) in edits) {
            copy = Copy(temporary.newFolder())
            addVariant(edit = edit)
            fails(BundleFault.UNSUITABLE, word)
        }
        copy = Copy(temporary.newFolder())
        addVariant()
        copy.editIndex { it.replace("\"device\": \"gpu\"", "\"device\": \"npu\"") }
        fails(BundleFault.UNSUITABLE, "npu", bundle = "$name-gpu")
    }

    private fun damage(file: String) {
        val content = copy.open("bundles/$name/$file").readBytes()
        content[content.size / 2] = (content[content.size / 2] + 1).toByte()
        copy.put("bundles/$name/$file", content)
    }

    @Test
    fun `bundles are opened as they were exported`() {
        val bundles = Bundles(copy).index().bundles.keys.associateWith(Bundles(copy)::open)
        assertEquals(
            listOf("pairs", "spans", "tags", "vectors").map { "$it-float32" },
            bundles.keys.toList(),
        )
        assertEquals(
            listOf(TaskKind.CLASSIFICATION, TaskKind.SPAN, TaskKind.TOKEN, TaskKind.EMBEDDING),
            bundles.values.map { it.task.kind },
        )
        for (bundle in bundles.values) {
            assertEquals(listOf(16, 24), bundle.lengths.all)
            assertEquals(24, bundle.lengths.maxLength)
            val file = copy.open(bundle.modelPath).readBytes()
            assertEquals(sha256(file), bundle.manifest.model.sha256)
        }
        assertTrue(bundles.getValue(name).manifest.softmax)
    }

    @Test
    fun `a file for a GPU says so`() {
        copy.editManifest(name) {
            it.replace("\"softmax\": true", "\"device\": \"gpu\", \"softmax\": true")
        }
        val manifest = Bundles(copy).open(name).manifest
        assertEquals("gpu", manifest.device)
        assertEquals("cpu", Bundles(copy).open("tags-float32").manifest.device)
    }

    @Test
    fun `a bundle that is not there is missing`() {
        fails(BundleFault.MISSING, "pairs-float32, spans-float32", bundle = "other")
        copy.folder.resolve("bundles/index.json").delete()
        fails(BundleFault.MISSING, "index.json", "tfdistill export --android")
    }

    @Test
    fun `every file that is missing is named`() {
        for (file in
            listOf(
                "vocab.txt",
                "labels.txt",
                "golden.json",
                "tokens.jsonl",
                "model.tflite",
                "model.json",
            )) {
            copy = Copy(temporary.newFolder())
            copy.folder.resolve("bundles/$name/$file").delete()
            fails(BundleFault.MISSING, file)
        }
    }

    @Test
    fun `a changed byte of any file is found`() {
        for (file in
            listOf(
                "vocab.txt",
                "labels.txt",
                "golden.json",
                "tokens.jsonl",
                "model.tflite",
                "model.json",
            )) {
            copy = Copy(temporary.newFolder())
            damage(file)
            fails(BundleFault.TAMPERED, file, "export again")
        }
    }

    @Test
    fun `a later format is said to be later`() {
        copy.editManifest(name) { it.replace("\"format_version\": 1", "\"format_version\": 2") }
        fails(BundleFault.NEWER, "expected 1, received 2", "Update the app")
        copy.editIndex { it.replace("\"format_version\": 1", "\"format_version\": 7") }
        fails(BundleFault.NEWER, "index.json")
    }

    @Test
    fun `keys of later versions are ignored unless the file requires them`() {
        val colour = "\"softmax\": true, \"colour\": 3"
        val known = "\"requires\": [\"softmax\", \"variants.parity.bounds\", \"task.span\"]"
        copy.editManifest(name) { it.replace("\"softmax\": true", "$colour, $known") }
        copy.editIndex { it.replace("\"bundles\": {", "\"colour\": 3, \"bundles\": {") }
        assertTrue(Bundles(copy).open(name).manifest.softmax)
        for (path in listOf("colour", "task.colour", "softmax.colour")) {
            copy = Copy(temporary.newFolder())
            val unknown = "$colour, \"requires\": [\"softmax\", \"$path\"]"
            copy.editManifest(name) { it.replace("\"softmax\": true", unknown) }
            fails(BundleFault.NEWER, "requires of model.json", "[$path]", "Update the app")
        }
    }

    @Test
    fun `a bundle says where its texts are cut`() {
        val text = "good film ".repeat(20) + "bad"
        fun lastButOne() = Bundles(copy).open(name).run { vocabulary.token(ids(text)[22]) }
        assertEquals("film", lastButOne())
        val required = "\"requires\": [\"tokenizer.truncation\"], \"softmax\": true"
        copy.editManifest(name) {
            it.replace("\"lower_case\": true", "\"lower_case\": true, \"truncation\": \"middle\"")
                .replace("\"softmax\": true", required)
        }
        assertEquals("bad", lastButOne())
        copy = Copy(temporary.newFolder())
        copy.editManifest(name) {
            it.replace("\"lower_case\": true", "\"lower_case\": true, \"truncation\": \"start\"")
        }
        fails(BundleFault.MALFORMED, "model.json")
    }

    private fun Bundle.ids(text: String) = tokenizer.encode(text, maxLength = 24).ids

    @Test
    fun `what is no manifest is malformed`() {
        val edits =
            listOf<(String) -> String>(
                { it.replace("\"format_version\": 1", "\"format_version\": \"1\"") },
                { it.replace("\"format_version\": 1", "\"format_version\": 0") },
                { it.replace("\"format_version\": 1,", "") },
                { it.replace("\"softmax\": true", "\"softmax\": \"yes\"") },
                { it.replace("\"softmax\": true", "\"softmax\": true, \"requires\": \"softmax\"") },
                { it.replace("\"softmax\": true,", "") },
                { it.dropLast(20) },
                { "" },
                { "[1]" },
                { "[".repeat(100_000) },
            )
        for (edit in edits) {
            copy = Copy(temporary.newFolder())
            copy.editManifest(name, edit)
            fails(BundleFault.MALFORMED, "model.json")
        }
    }

    @Test
    fun `a bundle whose parts do not fit is unsuitable`() {
        val edits =
            listOf<Pair<(String) -> String, String>>(
                { s: String ->
                    s.replaceFirst("\"vocab_size\": ", "\"vocab_size\": 1")
                } to "vocab_size",
                { s: String -> s.replace("\"maybe\"", "\"perhaps\"") } to "labels.txt",
                { s: String -> s.replace("\"yes\",", "") } to "output scores of len16",
                { s: String -> s.replace("\"scores\"", "\"logits\"") } to "outputs of len16",
                { s: String ->
                    s.replace("\"softmax\": true", "\"softmax\": false")
                } to "outputs of len16",
                { s: String -> s.replace("\"input_ids\"", "\"ids\"") } to "inputs of len16",
                { s: String -> s.replace("\"int32\"", "\"int64\"") } to "int32",
                { s: String ->
                    s.replace("\"max_length\": 24", "\"max_length\": 25")
                } to "max_length",
                { s: String -> s.replace("\"vocab.txt\"", "\"../vocab.txt\"") } to "name of a file",
                { s: String ->
                    s.replace(TOKENIZER, "\"tokenizer\": null, \"task\"")
                } to "tokenizer",
            )
        for ((edit, word) in edits) {
            copy = Copy(temporary.newFolder())
            copy.editManifest(name, edit)
            fails(BundleFault.UNSUITABLE, word)
        }
    }

    @Test
    fun `folders of the index stay inside`() {
        copy.editIndex { it.replace("\"folder\": \"$name\"", "\"folder\": \"../$name\"") }
        fails(BundleFault.UNSUITABLE, "folder of a bundle")
    }

    @Test
    fun `names of folders and files are names, and no paths`() {
        val names =
            listOf(
                "",
                ".",
                "..",
                "../x",
                "/etc",
                "a/b",
                "a\\\\b",
                ".hidden",
                "a b",
                "a\\u0000",
                "-a",
                "é",
            )
        for (bad in names) {
            copy = Copy(temporary.newFolder())
            copy.editIndex { it.replace("\"folder\": \"$name\"", "\"folder\": \"$bad\"") }
            fails(BundleFault.UNSUITABLE, "folder of a bundle")
            for (file in listOf("vocab.txt", "labels.txt", "golden.json", "model.tflite")) {
                copy = Copy(temporary.newFolder())
                copy.editManifest(name) { it.replace("\"$file\"", "\"$bad\"") }
                fails(BundleFault.UNSUITABLE, "name of a file")
            }
        }
    }

    @Test
    fun `an index that cannot be right is refused`() {
        val edits =
            listOf<Pair<(String) -> String, BundleFault>>(
                { s: String -> "[".repeat(100_000) + s } to BundleFault.MALFORMED,
                { s: String ->
                    s.replace("{", "{\"a\":".repeat(50_000) + "{")
                } to BundleFault.MALFORMED,
                { s: String ->
                    s.replace("\"bundles\": {", "\"bundles\": [")
                } to BundleFault.MALFORMED,
                { s: String -> s.replace("33352", "1e99") } to BundleFault.MALFORMED,
                { s: String ->
                    s.replace("33352", "99999999999999999999")
                } to BundleFault.MALFORMED,
                { s: String -> s.replace("3200", "-1") } to BundleFault.UNSUITABLE,
                { s: String ->
                    s.replace(Regex("\"[0-9a-f]{64}\""), "\"0\"")
                } to BundleFault.UNSUITABLE,
                // Of two values the last one counts, and that is the one which is checked.
                { s: String ->
                    s.replace(
                        "\"folder\": \"$name\"",
                        "\"folder\": \"$name\", \"folder\": \"../$name\"",
                    )
                } to BundleFault.UNSUITABLE,
            )
        for ((edit, fault) in edits) {
            copy = Copy(temporary.newFolder())
            copy.editIndex(edit)
            fails(fault)
        }
    }

    @Test
    fun `numbers of a manifest that cannot be right are refused before anything is made of them`() {
        val length = "\"sequence_length\": 16,"
        val edits =
            listOf(
                length to "\"sequence_length\": 2147483647,",
                length to "\"sequence_length\": -16,",
                "\"max_length\": 24" to "\"max_length\": 2147483647",
                "\"max_length\": 24" to "\"max_length\": -1",
                "\"max_length\": 24" to "\"max_length\": 2",
                "\"vocab_size\": 114,\n    \"lower" to "\"vocab_size\": 0,\n    \"lower",
                "\"vocab_size\": 114,\n    \"lower" to "\"vocab_size\": -114,\n    \"lower",
                "\"size_bytes\": 33352" to "\"size_bytes\": -1",
            )
        for ((old, new) in edits) {
            copy = Copy(temporary.newFolder())
            copy.editManifest(name) { it.replaceFirst(old, new) }
            fails(BundleFault.UNSUITABLE)
        }
        for (number in listOf("2147483648", "1e400", "16.5", "null", "[16]")) {
            copy = Copy(temporary.newFolder())
            copy.editManifest(name) { it.replaceFirst(length, "\"sequence_length\": $number,") }
            fails(BundleFault.MALFORMED, "model.json")
        }
    }

    @Test
    fun `rules of answers that cannot be right are refused`() {
        val spans = "spans-float32"
        for (rule in listOf("doc_stride", "max_answer_length", "n_best", "max_question_length")) {
            for (value in listOf("0", "-1", "-2147483648")) {
                copy = Copy(temporary.newFolder())
                copy.editManifest(spans) {
                    it.replace(Regex("\"$rule\": \\d+"), "\"$rule\": $value")
                }
                fails(BundleFault.UNSUITABLE, rule, bundle = spans)
            }
        }
        copy.editManifest(spans) {
            it.replace(
                Regex("\"max_question_length\": -?\\d+"),
                "\"max_question_length\": 2147483647",
            )
        }
        fails(BundleFault.UNSUITABLE, "max_question_length", bundle = spans)
        copy = Copy(temporary.newFolder())
        copy.editManifest(spans) {
            it.replace(Regex("\"span\": \\{.*?\\}", DOT_ALL), "\"span\": null")
        }
        fails(BundleFault.UNSUITABLE, "span of the task", bundle = spans)
    }

    /** Puts other content in the place of a file, and a manifest that agrees. */
    private fun replace(file: String, edit: (ByteArray) -> ByteArray) {
        val old = copy.open("bundles/$name/$file").readBytes()
        val new = edit(old)
        copy.put("bundles/$name/$file", new)
        copy.editManifest(name) { it.replace(sha256(old), sha256(new)) }
    }

    @Test
    fun `a vocabulary may have Windows' ends of lines, and neither gaps nor a token twice`() {
        val expected = Bundles(copy).open(name).tokenizer.encode("good film", maxLength = 9).ids
        replace("vocab.txt") { String(it).replace("\n", "\r\n").toByteArray() }
        val ids = Bundles(copy).open(name).tokenizer.encode("good film", maxLength = 9).ids
        assertEquals(expected.asList(), ids.asList())
        for (line in listOf("\n", "good\n", "[MASK]\r\n")) {
            copy = Copy(temporary.newFolder())
            replace("vocab.txt") { it + line.toByteArray() }
            fails(BundleFault.MALFORMED, "vocabulary")
        }
        copy = Copy(temporary.newFolder())
        replace("vocab.txt") { it + "one-more\n".toByteArray() }
        fails(BundleFault.UNSUITABLE, "tokens of $name")
    }

    @Test
    fun `labels in another order, or more of them, are not those of the outputs`() {
        for (lines in listOf("yes\nno\nmaybe\n", "no\nyes\n", "no\nyes\nmaybe\nnever\n", "")) {
            copy = Copy(temporary.newFolder())
            replace("labels.txt") { lines.toByteArray() }
            fails(BundleFault.UNSUITABLE, "labels.txt")
        }
    }

    @Test
    fun `without golden examples a bundle answers, and cannot be measured`() {
        copy.editManifest(name) {
            it.replace(Regex("\"golden_file\": \\{.*?\\}", DOT_ALL), "\"golden_file\": null")
        }
        val bundle = Bundles(copy).open(name)
        assertTrue(bundle.tokenizer.encode("good", maxLength = 9).size > 2)
        for (content in
            listOf(
                "",
                "{}",
                "[]",
                "{\"examples\": [{}]}",
                "{\"examples\": [{\"input_ids\": [], \"token_type_ids\": []}]}",
                "{\"examples\": []}",
            )) {
            copy = Copy(temporary.newFolder())
            replace("golden.json") { content.toByteArray() }
            noExamples(Bundles(copy).open(name))
        }
        noExamples(bundle)
    }

    private fun noExamples(bundle: Bundle) {
        val error = assertThrows(BundleException::class.java) { GoldenExamples.read(bundle, copy) }
        assertTrue(error.message, "golden.json" in error.message.orEmpty())
    }

    @Test
    fun `a model without the signatures of its manifest is unsuitable`() {
        val bundle = Bundles(copy).open(name)
        val right =
            bundle.manifest.signatures.mapValues {
                SignatureTensors(it.value.inputs, it.value.outputs)
            }
        bundle.checkModel(right)
        bundle.checkModel(right + ("more" to right.getValue("len16")))
        val swapped = mapOf("len16" to right.getValue("len24"), "len24" to right.getValue("len16"))
        for (wrong in listOf(emptyMap(), right - "len16", swapped)) {
            val error = assertThrows(BundleException::class.java) { bundle.checkModel(wrong) }
            assertEquals(BundleFault.UNSUITABLE, error.fault)
            assertTrue(error.message, "len16" in error.message.orEmpty())
        }
    }
}
