package io.github.tfdistill.text

/** What is wrong with a bundle: what an app says about it, and what it advises. */
public enum class BundleFault {
    /** There is no bundle, or a file of it is missing. */
    MISSING,

    /** A file is not what it should be: no JSON, unknown keys, values out of range. */
    MALFORMED,

    /** It was written by a later version of tfdistill. */
    NEWER,

    /** A file is not the one that was exported. */
    TAMPERED,

    /** The files are whole, but this app cannot use them together. */
    UNSUITABLE,
}

/** A bundle that cannot be used. The message is for logs; [fault] decides what a user reads. */
public class BundleException(
    public val fault: BundleFault,
    message: String,
    cause: Throwable? = null,
) : Exception(message, cause)

/** Writes a message in the way of all of tfdistill's: "what: expected E, received R. Remedy." */
internal fun explain(what: String, expected: String, received: Any?, remedy: String = ""): String {
    val sentence = "$what: expected $expected, received $received."
    return if (remedy.isEmpty()) sentence else "$sentence $remedy"
}
