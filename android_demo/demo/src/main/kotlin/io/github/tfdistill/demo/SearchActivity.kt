package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.text.Match

/** A question, and the nearest texts of an index with their answers. */
class SearchActivity : Activity() {
    private val model: SearchModel
        get() = (application as DemoApplication).search

    private var before: String? = null // chosen until Android ended the app

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        showLayout(R.layout.search)
        actionBar?.setDisplayHomeAsUpEnabled(true)
        before = saved?.getString(CHOSEN)
        view<Button>(R.id.run).setOnClickListener {
            chosen()?.let { model.run(it, typed(R.id.first)) }
        }
        view<Button>(R.id.stop).setOnClickListener { model.stop() }
    }

    override fun onStart() {
        super.onStart()
        model.listener = ::show
        show(model.state)
    }

    override fun onStop() {
        model.listener = null
        super.onStop()
    }

    override fun onSaveInstanceState(out: Bundle) {
        saveTexts(R.id.first)
        super.onSaveInstanceState(out)
        out.putString(CHOSEN, chosen())
    }

    private fun chosen() = view<Spinner>(R.id.bundles).selectedItem as String?

    private fun show(state: SearchState) {
        val offered = state.names.isNotEmpty()
        view<View>(R.id.form).showIf(offered)
        view<Spinner>(R.id.bundles).offer(state.names, before)
        view<View>(R.id.stop).showIf(state.running && offered)
        val found = state.found
        view<TextView>(R.id.answer)
            .say(
                when {
                    state.running -> getString(R.string.running)
                    state.fault != null -> Wording.of(resources, state.fault)
                    state.error != null -> getString(R.string.failed, state.error)
                    state.notice != null -> getString(state.notice)
                    else -> found?.let { headline(it) }
                }
            )
        val rows = view<LinearLayout>(R.id.matches)
        rows.removeAllViews()
        for (match in found?.matches.orEmpty()) rows.addView(row(rows, match))
        view<TextView>(R.id.details).say(found?.let(::details))
    }

    private fun headline(found: Found): String {
        val count = found.card.count
        if (found.isNear) return getString(R.string.nearest, count)
        val best = found.matches.first().score
        return getString(R.string.not_near, best, found.card.threshold, count)
    }

    private fun details(found: Found): String =
        getString(R.string.search_time, found.searchMs, found.card.count) +
            "\n" +
            Wording.details(resources, found.prediction)

    private fun row(rows: LinearLayout, match: Match): View {
        val row = layoutInflater.inflate(R.layout.match, rows, false)
        val score = getString(R.string.score, match.score)
        val parts = listOf(match.text, match.answer, score)
        for ((id, text) in listOf(R.id.text, R.id.reply, R.id.score).zip(parts)) {
            checkNotNull(row.findViewById<TextView>(id)).say(text?.let(::shortened))
        }
        row.contentDescription = parts.filterNotNull().joinToString(", ", transform = ::shortened)
        return row
    }

    private fun shortened(text: String) =
        if (text.length <= MOST_CHARACTERS) text else text.take(MOST_CHARACTERS) + "…"

    private companion object {
        const val CHOSEN = "chosen"
        const val MOST_CHARACTERS = 1000 // of a text; more would take long to lay out
    }
}
