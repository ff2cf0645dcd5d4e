package io.github.tfdistill.text

/** Answers the golden examples as the Python side's file did, but for what [change] makes of it. */
class Replay(bundle: Bundle, source: FileSource, private val change: (Float) -> Float = { it }) :
    ModelRunner {
    private val golden = GoldenRunner(bundle, GoldenExamples.read(bundle, source))

    override val signatures = golden.signatures

    override fun run(signature: String, inputs: Map<String, IntArray>): Map<String, FloatArray> =
        golden.run(signature, inputs).mapValues { (_, values) ->
            FloatArray(values.size) { change(values[it]) }
        }

    override fun close() = golden.close()
}
