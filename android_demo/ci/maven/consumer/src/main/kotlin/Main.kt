import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.FolderSource
import io.github.tfdistill.text.GoldenExamples
import io.github.tfdistill.text.GoldenRunner
import io.github.tfdistill.text.Predictor
import java.io.File

/** Answers the golden texts of a bundle; its arguments are a folder of assets and a name in it. */
fun main(args: Array<String>) {
    val files = FolderSource(File(args[0]))
    val bundle = Bundles(files).open(args[1])
    val golden = GoldenExamples.read(bundle, files)
    val predictor = Predictor(bundle, GoldenRunner(bundle, golden)) // on a phone: InterpreterRunner
    for ((text, pair) in golden.texts) {
        val ids = bundle.tokenizer.encode(text, pair, bundle.lengths.maxLength).ids
        println("${ids.asList()} ${predictor.predict(text, pair).outcome}")
    }
}
