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

    private var isRestored = false

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.compare)
        actionBar?.setDisplayHomeAsUpEnabled(true)
        isRestored = saved != null
        view<Button>(R.id.run).setOnClickListener {
            val names = listOf(R.id.left, R.id.right).map { view<Spinner>(it).selectedItem }
            model.run(names.map { it as String }, typed(R.id.first), typed(R.id.second))
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

    private fun show(state: CompareState) {
        val right = view<Spinner>(R.id.right)
        val isNew = (right.adapter?.count ?: 0) == 0 && state.names.isNotEmpty()
        view<Spinner>(R.id.left).offer(state.names, null)
        right.offer(state.names, state.names.getOrNull(1).takeIf { isNew && !isRestored })
        view<Button>(R.id.run).isEnabled = state.names.isNotEmpty()
        view<View>(R.id.stop).showIf(state.running && state.names.isNotEmpty())
        view<TextView>(R.id.answer).text =
            when {
                state.running -> getString(R.string.running)
                state.fault != null -> Wording.of(resources, state.fault)
                state.error != null -> getString(R.string.failed, state.error)
                state.notice != null -> getString(state.notice)
                state.answers.isNotEmpty() -> getString(R.string.compare_note)
                else -> null
            }
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
}
