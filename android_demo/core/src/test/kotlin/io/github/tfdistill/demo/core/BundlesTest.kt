package io.github.tfdistill.demo.core

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
        val TOKENIZER = Regex("\"tokenizer\": .*?\"task\"", RegexOption.DOT_MATCHES_ALL)
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

    private fun damage(file: String) {
        val content = copy.open("bundles/$name/$file").readBytes()
        content[content.size / 2] = (content[content.size / 2] + 1).toByte()
        copy.put("bundles/$name/$file", content)
    }

    @Test
    fun `bundles are opened as they were exported`() {
        val found = Bundles(copy).index().bundles.keys.associateWith(Bundles(copy)::open)
        assertEquals(setOf("pairs-float32", "spans-float32", "tags-float32"), found.keys)
        assertEquals(
            listOf(TaskKind.CLASSIFICATION, TaskKind.SPAN, TaskKind.TOKEN),
            found.values.map { it.task.kind },
        )
        for (bundle in found.values) {
            assertEquals(listOf(16, 24), bundle.lengths.all)
            assertEquals(24, bundle.lengths.maxLength)
            val file = copy.open(bundle.modelPath).readBytes()
            assertEquals(sha256(file), bundle.manifest.model.sha256)
        }
        assertTrue(found.getValue(name).manifest.softmax)
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
    fun `what is no manifest is malformed`() {
        val edits =
            listOf<(String) -> String>(
                { it.replace("\"format_version\": 1", "\"format_version\": \"1\"") },
                { it.replace("\"format_version\": 1", "\"format_version\": 0") },
                { it.replace("\"format_version\": 1,", "") },
                { it.replace("\"softmax\": true", "\"softmax\": \"yes\"") },
                { it.replace("\"softmax\": true", "\"softmax\": true, \"colour\": 3") },
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
