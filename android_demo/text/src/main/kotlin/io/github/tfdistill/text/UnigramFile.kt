package io.github.tfdistill.text

import java.util.Base64
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.builtins.serializer
import kotlinx.serialization.json.JsonElement

/** A token that is looked for in the text as it is, with the white space before it or not. */
@Serializable
internal class AddedToken(
    val id: Int,
    val content: String,
    val lstrip: Boolean,
    @SerialName("single_word") private val singleWord: Boolean,
    private val rstrip: Boolean,
    private val normalized: Boolean,
) {
    /** Whether it is looked for in one of these two ways. */
    val isPlain: Boolean
        get() = content.isNotEmpty() && !singleWord && !rstrip && !normalized
}

/** The tokenizer.json of a Unigram tokenizer, in the one form that an export writes. */
@Serializable
internal class UnigramFile(
    @SerialName("added_tokens") private val addedTokens: List<AddedToken>,
    private val normalizer: JsonElement,
    @SerialName("pre_tokenizer") private val preTokenizer: JsonElement,
    private val model: JsonElement,
) {
    private fun check(vocabulary: Vocabulary) {
        expect("normalizer", TABLE, normalizer)
        expect("pre_tokenizer", STEPS, preTokenizer)
        expect("model", MODEL.replace("%d", "${vocabulary.unknownId}"), model)
        for (token in addedTokens) {
            val isPiece = token.id == vocabulary.id(token.content)
            if (isPiece && token.isPlain) continue
            throw malformed("added_tokens", "pieces, looked for as they are", token.content)
        }
    }

    companion object {
        private const val TABLE = """{"type": "Precompiled", "precompiled_charsmap": ""}"""
        private const val STEPS =
            """{"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type":
            "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}]}"""
        private const val MODEL =
            """{"type": "Unigram", "unk_id": %d, "vocab": [], "byte_fallback": false}"""
        private val SPECIAL = listOf("<pad>", "<unk>", "<s>", "</s>")

        /**
         * Reads a tokenizer.
         *
         * @throws BundleException if it is not of that form: another model, other steps, pieces
         *   twice, scores that are no numbers, special tokens that are no pieces
         */
        fun read(content: ByteArray, record: TokenizerRecord): UnigramTokenizer =
            try {
                tokenizer(PieceReader(content), record)
            } catch (error: IndexOutOfBoundsException) {
                throw malformed("vocab and charsmap", "whole ones", "$error")
            } catch (error: IllegalArgumentException) { // no score, another bracket, no base64
                throw malformed("vocab and charsmap", "pieces, scores and base64", "$error")
            }

        private fun tokenizer(reader: PieceReader, record: TokenizerRecord): UnigramTokenizer {
            val table = reader.takeTable()
            reader.takePieces()
            val file = BundleJson.decode("tokenizer.json", reader.rest(), serializer())
            val vocabulary = Vocabulary(reader.tokens, SPECIAL)
            file.check(vocabulary)
            return UnigramTokenizer(
                vocabulary,
                reader.scores.copyOf(vocabulary.size),
                CharsMap(Base64.getDecoder().decode(table)),
                file.addedTokens,
                record.truncation,
                record.prompt,
            )
        }

        /** Compares what is left of a part when its pieces, or its table, were taken out. */
        private fun expect(part: String, expected: String, received: JsonElement) {
            if (received == BundleJson.json.parseToJsonElement(expected)) return
            throw malformed(part, expected, "$received")
        }
    }
}

/**
 * Reads what is nearly all of a file, the pieces and the table, without a tree of it.
 *
 * Most apps do so once, in code that is not compiled yet: few calls for each byte.
 */
private class PieceReader(private var content: ByteArray) {
    private var at = 0
    val tokens = ArrayList<String>()
    var scores = DoubleArray(1 shl 10)
        private set

    /** Takes the table of the normalisation out of the file, as it is there. */
    fun takeTable(): ByteArray {
        val begin = find("\"precompiled_charsmap\"", '"')
        while (content[at] != QUOTE) at++
        return content.copyOfRange(begin, at).also { take(begin) }
    }

    /** Takes the pieces and their scores out of the file. */
    fun takePieces() {
        val begin = find("\"vocab\"", '[')
        if (!isNext(']')) {
            do {
                next('[')
                next('"')
                val token = string()
                next(',')
                if (tokens.size == scores.size) scores = scores.copyOf(2 * scores.size)
                scores[tokens.size] = score()
                tokens += token
                next(']')
            } while (isNext(','))
            next(']')
        }
        at--
        take(begin)
    }

    /** The file without what was taken. */
    fun rest(): String = Vocabulary.decode(content)

    private fun take(begin: Int) {
        content = content.copyOf(begin) + content.copyOfRange(at, content.size)
    }

    private fun find(key: String, bracket: Char): Int {
        at = String(content, Charsets.ISO_8859_1).indexOf(key) + key.length
        next(':')
        next(bracket)
        return at
    }

    private fun string(): String {
        val bytes = content
        var end = at
        var isPlain = true
        while (bytes[end] != QUOTE) {
            if (bytes[end++] != BACKSLASH) continue
            isPlain = false
            end++
        }
        val begin = at
        at = end + 1
        if (isPlain) return Vocabulary.decode(bytes.copyOfRange(begin, end))
        val raw = Vocabulary.decode(bytes.copyOfRange(begin - 1, at))
        return BundleJson.decode("vocab", raw, String.serializer())
    }

    private fun score(): Double {
        skipBlanks()
        val bytes = content
        val begin = at
        var end = begin
        while (bytes[end] > BLANK && bytes[end] != BRACKET) end++
        at = end
        return Scores.parse(bytes, begin, end)
    }

    private fun next(letter: Char) {
        if (!isNext(letter)) throw IllegalArgumentException("'$letter' after ${tokens.size} pieces")
    }

    private fun isNext(letter: Char): Boolean {
        skipBlanks()
        if (at == content.size || content[at] != letter.code.toByte()) return false
        at++
        return true
    }

    private fun skipBlanks() {
        while (at < content.size && content[at] in 0..BLANK) at++
    }

    private companion object {
        const val QUOTE = '"'.code.toByte()
        const val BACKSLASH = '\\'.code.toByte()
        const val BRACKET = ']'.code.toByte()
        const val BLANK = ' '.code.toByte()
    }
}

private fun malformed(what: String, expected: String, received: String) =
    BundleException(BundleFault.MALFORMED, explain("$what of tokenizer.json", expected, received))
