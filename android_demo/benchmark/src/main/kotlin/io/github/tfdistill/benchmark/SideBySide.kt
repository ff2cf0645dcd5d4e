package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundle
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Predictor

/** A bundle and its opened file. */
class Side(val bundle: Bundle, val runner: ModelRunner)

/** Several models on the same text. */
class SideBySide(
    private val sides: List<Side>,
    private val nanoTime: () -> Long = System::nanoTime,
    private val isCancelled: () -> Boolean = { false },
) {
    /**
     * Answers a text with each model.
     *
     * The first answer of each does not count, because it allocates; then they take turns, so that
     * what disturbs the device disturbs all of them.
     *
     * @return the answer of each side; its latencies are medians over the turns
     * @throws java.util.concurrent.CancellationException if it is told to stop
     */
    fun predict(text: String, second: String?, turns: Int = TURNS): List<Prediction> {
        val predictors = sides.map { Predictor(it.bundle, it.runner, nanoTime, isCancelled) }
        for (predictor in predictors) predictor.predict(text, second)
        val rounds = List(turns) { predictors.map { it.predict(text, second) } }
        return sides.indices.map { side ->
            val predictions = rounds.map { it[side] }
            predictions
                .first()
                .copy(
                    tokenizerMs = Statistics.median(predictions.map { it.tokenizerMs }),
                    inferenceMs = Statistics.median(predictions.map { it.inferenceMs }),
                )
        }
    }

    companion object {
        /** How often each model answers. */
        const val TURNS = 5
    }
}
