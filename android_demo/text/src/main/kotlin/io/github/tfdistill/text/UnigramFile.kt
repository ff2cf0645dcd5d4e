package io.github.tfdistill.text

import java.util.Base64
import java.util.Locale
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
        expect("model", MODEL.format(Locale.ROOT, vocabulary.unknownId), model)
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
            reader.takePieces()
            val table = reader.takeTable()
            val file = BundleJson.decode("tokenizer.json", reader.rest(), serializer())
            val vocabulary = Vocabulary(reader.tokens, SPECIAL)
            file.check(vocabulary)
            return UnigramTokenizer(
                vocabulary,
                reader.scores.toDoubleArray(),
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

/** Reads what is nearly all of a file, the pieces and the table, without a tree of it. */
private class PieceReader(content: ByteArray) {
    private var text = String(content, Charsets.ISO_8859_1) // its bytes: few are of letters
    private var at = 0
    val tokens = ArrayList<String>()
    val scores = ArrayList<Double>()

    /** Takes the pieces and their scores out of the file. */
    fun takePieces() {
        val begin = find("\"vocab\"", '[')
        if (!isNext(']')) {
            do {
                next('[')
                next('"')
                tokens += string()
                next(',')
                val end = text.indexOf(']', at)
                scores += Scores.parse(text.substring(at, end).trim())
                at = end + 1
            } while (isNext(','))
            next(']')
        }
        take(begin, at - 1)
    }

    /** Takes the table of the normalisation out of the file, as it is there. */
    fun takeTable(): String {
        val begin = find("\"precompiled_charsmap\"", '"')
        val table = text.substring(begin, text.indexOf('"', begin))
        take(begin, begin + table.length)
        return table
    }

    /** The file without what was taken. */
    fun rest(): String = decoded(text)

    private fun take(begin: Int, end: Int) {
        text = StringBuilder(text).delete(begin, end).toString()
    }

    private fun decoded(bytes: String) = Vocabulary.decode(bytes.toByteArray(Charsets.ISO_8859_1))

    private fun find(key: String, bracket: Char): Int {
        at = text.indexOf(key) + key.length
        next(':')
        next(bracket)
        return at
    }

    private fun string(): String {
        var end = text.indexOf('"', at)
        while (text[end - 1] == '\\' && isEscaped(end)) end = text.indexOf('"', end + 1)
        val raw = text.substring(at, end)
        at = end + 1
        if ('\\' !in raw) return decoded(raw)
        return BundleJson.decode("vocab", decoded("\"$raw\""), String.serializer())
    }

    private fun isEscaped(quote: Int) =
        text.substring(at, quote).takeLastWhile { it == '\\' }.length % 2 > 0

    private fun next(letter: Char) {
        require(isNext(letter)) { "'$letter' after ${tokens.size} pieces" }
    }

    private fun isNext(letter: Char): Boolean {
        while (at < text.length && text[at] <= ' ') at++
        val isIt = at < text.length && text[at] == letter
        if (isIt) at++
        return isIt
    }
}

private fun malformed(what: String, expected: String, received: String) =
    BundleException(BundleFault.MALFORMED, explain("$what of tokenizer.json", expected, received))
