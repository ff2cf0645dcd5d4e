package io.github.tfdistill.demo

import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Bundle as ModelBundle
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Match
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.Predictor
import io.github.tfdistill.text.TextIndex
import io.github.tfdistill.text.TextIndexCard
import java.util.concurrent.Executor

/**
 * What a search came to.
 *
 * @property prediction how the question became a vector
 * @property searchMs the time of the search alone
 */
class SearchResult(
    val card: TextIndexCard,
    val matches: List<Match>,
    val prediction: Prediction,
    val searchMs: Double,
) {
    /** Whether the best row is nearer than unrelated texts are. */
    val isNear: Boolean
        get() = card.threshold?.let { matches.first().score >= it } ?: true
}

/** Finds the texts of an index that are nearest to a question. */
class SearchModel(services: Services, main: Executor) :
    TextModel<SearchResult>(services, main, Bundles::searchable, R.string.no_index) {
    private class Opened(val bundle: ModelBundle, val index: TextIndex, val runner: ModelRunner)

    private var opened: Opened? = null // of the worker

    override fun answer(
        names: List<String>,
        text: String,
        second: String,
        isCancelled: () -> Boolean,
    ): SearchResult {
        val encoder = opened(names.single())
        val predictor = Predictor(encoder.bundle, encoder.runner, isCancelled = isCancelled)
        val prediction = predictor.predict(text)
        val begin = System.nanoTime()
        val matches = encoder.index.search((prediction.outcome as Outcome.Vector).values, SHOWN)
        val searchMs = (System.nanoTime() - begin) / 1e6
        return SearchResult(encoder.index.card, matches, prediction, searchMs)
    }

    private fun opened(name: String): Opened {
        opened?.let { if (it.bundle.name == name) return it }
        close()
        val bundle = bundles.open(name)
        val index = bundles.openIndex(bundle)
        val runner = services.models.open(bundle, THREADS, Accelerator.CPU)
        return Opened(bundle, index, runner).also { opened = it }
    }

    override fun release() = services.worker.execute(::close)

    private fun close() {
        opened?.runner?.close()
        opened = null
    }

    private companion object {
        const val SHOWN = 5
    }
}

/** A question, and the nearest texts of an index with their answers. */
class SearchActivity : Screen<TextState<SearchResult>>(R.layout.search, R.id.first) {
    override val model: SearchModel
        get() = demo.screens.search

    private var before: String? = null

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        before = chosenBefore(saved).firstOrNull()
        view<Button>(R.id.run).setOnClickListener {
            if (chosen().isNotEmpty()) model.run(chosen(), typed(R.id.first))
        }
        view<Button>(R.id.stop).setOnClickListener { model.stop() }
    }

    override fun chosen() = listOfNotNull(view<Spinner>(R.id.bundles).selectedItem as String?)

    override fun show(state: TextState<SearchResult>) {
        val offered = state.names.isNotEmpty()
        view<View>(R.id.form).showIf(offered)
        view<Spinner>(R.id.bundles).offer(state.names, before)
        view<View>(R.id.stop).showIf(state.running && offered)
        val result = state.result
        val headline = result?.let(resources::headline)
        view<TextView>(R.id.answer).say(resources.message(state) ?: headline)
        val matches = result?.matches.orEmpty()
        view<LinearLayout>(R.id.matches).fill(R.layout.match, matches) { row, match ->
            val parts = listOf(match.text, match.answer, getString(R.string.score, match.score))
            for ((id, text) in listOf(R.id.text, R.id.reply, R.id.score).zip(parts)) {
                row.part<TextView>(id).say(text?.let(::shortened))
            }
            row.contentDescription =
                parts.filterNotNull().joinToString(", ", transform = ::shortened)
        }
        view<TextView>(R.id.details).say(result?.let(resources::details))
    }

    private fun shortened(text: String) =
        if (text.length <= MOST_CHARACTERS) text else text.take(MOST_CHARACTERS) + "…"

    private companion object {
        const val MOST_CHARACTERS = 1000 // of a text; more would take long to lay out
    }
}
