package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import android.view.View
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.EditText
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.demo.core.TaskKind
import io.github.tfdistill.demo.core.TaskRecord

/** A text, a model and its answer; or what to do where there is no model. */
class MainActivity : Activity() {
    private val model: MainModel
        get() = (application as DemoApplication).main

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.main)
        find<Button>(R.id.run).setOnClickListener {
            model.run(textOf(R.id.first), textOf(R.id.second))
        }
        find<Spinner>(R.id.bundles).onItemSelectedListener =
            object : AdapterView.OnItemSelectedListener {
                override fun onItemSelected(list: AdapterView<*>, view: View?, at: Int, id: Long) =
                    model.select(list.getItemAtPosition(at) as String)

                override fun onNothingSelected(list: AdapterView<*>) = Unit
            }
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

    private fun show(state: MainState) {
        val fault = state.fault
        find<View>(R.id.form).visibility = if (fault == null) View.VISIBLE else View.GONE
        with(find<TextView>(R.id.fault)) {
            visibility = if (fault == null) View.GONE else View.VISIBLE
            text = fault?.let { Wording.of(resources, it) }
        }
        showNames(state)
        state.bundle?.let { showTask(it.task) }
        find<Button>(R.id.run).isEnabled = state.bundle != null && !state.running
        find<TextView>(R.id.answer).text =
            when {
                state.running -> getString(R.string.running)
                state.error != null -> getString(R.string.failed, state.error)
                else -> state.prediction?.let { Wording.of(resources, it) }
            }
    }

    private fun showNames(state: MainState) {
        val spinner = find<Spinner>(R.id.bundles)
        if (spinner.adapter?.count != state.names.size) {
            val item = android.R.layout.simple_spinner_dropdown_item
            spinner.adapter = ArrayAdapter(this, item, state.names)
        }
        spinner.isEnabled = !state.running
        val at = state.names.indexOf(state.bundle?.name)
        if (at >= 0 && at != spinner.selectedItemPosition) spinner.setSelection(at)
    }

    private fun showTask(task: TaskRecord) {
        val span = task.kind == TaskKind.SPAN
        find<EditText>(R.id.first).setHint(if (span) R.string.question else R.string.text)
        with(find<EditText>(R.id.second)) {
            visibility = if (span || task.pair) View.VISIBLE else View.GONE
            setHint(if (span) R.string.context else R.string.second_text)
        }
    }

    private fun textOf(id: Int): String = find<EditText>(id).text.toString()

    private fun <T : View> find(id: Int): T = checkNotNull(findViewById<T>(id))
}
