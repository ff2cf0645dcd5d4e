package io.github.tfdistill.text

import java.io.FileNotFoundException
import java.security.MessageDigest

/** The toy models that tests/test_android/vectors.py exported with tfdistill itself. */
object Toys : FileSource {
    override fun open(path: String) =
        Toys::class.java.getResourceAsStream("/$path") ?: throw FileNotFoundException(path)
}

/** The toys with one of their files changed, and with an index that agrees. */
class EditedToys(private val path: String, edit: (String) -> String) : FileSource {
    private val old = Toys.open(path).readBytes()
    private val new = edit(String(old)).toByteArray()

    init {
        check(!old.contentEquals(new)) { "the edit changed nothing" }
    }

    override fun open(path: String) =
        when (path) {
            this.path -> new.inputStream()
            "bundles/index.json" ->
                String(Toys.open(path).readBytes())
                    .replace(sha256(old), sha256(new))
                    .byteInputStream()
            else -> Toys.open(path)
        }
}

fun sha256(content: ByteArray): String =
    MessageDigest.getInstance("SHA-256").digest(content).joinToString("") { "%02x".format(it) }
