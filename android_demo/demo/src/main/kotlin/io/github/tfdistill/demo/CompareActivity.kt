package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView

/** Two models on the same text, side by side. */
class CompareActivity : Activity() {
    private val model: CompareModel
        get() = (application as DemoApplication).compare

    private var before: List<String> = emptyList() // chosen until Android ended the app

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        showLayout(R.layout.compare)
        actionBar?.setDisplayHomeAsUpEnabled(true)
        before = saved?.getStringArrayList(CHOSEN).orEmpty()
        view<Button>(R.id.run).setOnClickListener {
            model.run(chosen(), typed(R.id.first), typed(R.id.second))
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
        saveTexts(R.id.first, R.id.second)
        super.onSaveInstanceState(out)
        out.putStringArrayList(CHOSEN, ArrayList(chosen()))
    }

    /** Names of the left and of the right model; none while there is nothing to choose. */
    private fun chosen(): List<String> =
        listOf(R.id.left, R.id.right).mapNotNull { view<Spinner>(it).selectedItem as String? }

    private fun show(state: CompareState) {
        view<Spinner>(R.id.left).offer(state.names, before.getOrNull(0))
        val other = before.getOrNull(1) ?: state.names.getOrNull(1)
        view<Spinner>(R.id.right).offer(state.names, other)
        view<Button>(R.id.run).isEnabled = state.names.isNotEmpty()
        view<View>(R.id.stop).showIf(state.running && state.names.isNotEmpty())
        view<TextView>(R.id.answer)
            .say(
                when {
                    state.running -> getString(R.string.running)
                    state.fault != null -> Wording.of(resources, state.fault)
                    state.error != null -> getString(R.string.failed, state.error)
                    state.notice != null -> getString(state.notice)
                    state.answers.isNotEmpty() -> getString(R.string.compare_note)
                    else -> null
                }
            )
        val table = view<LinearLayout>(R.id.table)
        table.removeAllViews()
        for (row in CompareWording.rows(resources, state.answers)) {
            val line = layoutInflater.inflate(R.layout.compare_row, table, false)
            for ((id, text) in listOf(R.id.what, R.id.one, R.id.other).zip(row)) {
                checkNotNull(line.findViewById<TextView>(id)).text = text
            }
            line.contentDescription = row.filter { it.isNotEmpty() }.joinToString(", ")
            table.addView(line)
        }
    }

    private companion object {
        const val CHOSEN = "chosen"
    }
}
