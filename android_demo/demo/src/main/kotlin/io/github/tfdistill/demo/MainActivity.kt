package io.github.tfdistill.demo

import android.content.Intent
import android.os.Bundle
import android.view.Menu
import android.view.MenuItem
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.Switch
import android.widget.TextView
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.text.Outcome
import io.github.tfdistill.text.Prediction
import io.github.tfdistill.text.TaskKind
import io.github.tfdistill.text.TaskRecord

/** A text, a model and its answer; or what to do where there is no model. */
class MainActivity : Screen<MainState>(R.layout.main, R.id.first, R.id.second) {
    override val model: MainModel
        get() = demo.screens.main

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        chosenBefore(saved).firstOrNull()?.let(model::prefer)
        view<Button>(R.id.run).setOnClickListener {
            model.run(typed(R.id.first), typed(R.id.second))
        }
        view<Button>(R.id.stop).setOnClickListener { model.stop() }
        view<Spinner>(R.id.bundles).onChosen(model::select)
        view<Switch>(R.id.gpu).setOnClickListener { model.useGpu((it as Switch).isChecked) }
    }

    override fun chosen() = listOfNotNull(model.state.chosen)

    override fun onCreateOptionsMenu(menu: Menu): Boolean {
        menuInflater.inflate(R.menu.main, menu)
        return true
    }

    override fun onOptionsItemSelected(item: MenuItem): Boolean {
        val screen =
            when (item.itemId) {
                R.id.search -> SearchActivity::class.java
                R.id.compare -> CompareActivity::class.java
                R.id.measure -> MeasureActivity::class.java
                R.id.device -> DeviceActivity::class.java
                else -> return super.onOptionsItemSelected(item)
            }
        startActivity(Intent(this, screen))
        return true
    }

    override fun show(state: MainState) {
        view<View>(R.id.choice).showIf(state.names.isNotEmpty())
        with(view<Spinner>(R.id.bundles)) {
            offer(state.names)
            choose(state.chosen)
        }
        view<View>(R.id.form).showIf(state.fault == null)
        view<TextView>(R.id.fault).say(state.fault?.let { resources.fault(it) })
        state.bundle?.let { showTask(it.task) }
        view<Button>(R.id.run).isEnabled = state.bundle != null
        view<View>(R.id.stop).showIf(state.running && state.bundle != null)
        val comparing = state.gpu is GpuNote.Comparing
        with(view<Switch>(R.id.gpu)) {
            isEnabled = state.bundle != null
            isChecked = comparing || state.accelerator == Accelerator.GPU
        }
        view<TextView>(R.id.gpu_note).say(state.gpu?.let(resources::note))
        view<TextView>(R.id.answer).text =
            when {
                comparing -> null
                state.running -> getString(R.string.running)
                state.error != null -> getString(R.string.failed, state.error)
                state.notice != null -> getString(state.notice)
                else -> state.prediction?.let { resources.headline(it.outcome) }
            }
        showDetails(state.prediction, state.answeredBy)
    }

    private fun showDetails(prediction: Prediction?, answeredBy: ComputedOn?) {
        val labels = (prediction?.outcome as? Outcome.Labels)?.labels.orEmpty()
        view<LinearLayout>(R.id.bars).showLabels(labels)
        view<TextView>(R.id.details).text =
            prediction?.let { "${resources.details(it)}\n${resources.computedOn(answeredBy)}" }
        view<TextView>(R.id.tokens).text = prediction?.let(::tokens)
        for (id in listOf(R.id.details, R.id.tokens)) view<View>(id).showIf(prediction != null)
    }

    private fun showTask(task: TaskRecord) {
        val span = task.kind == TaskKind.SPAN
        view<EditText>(R.id.first).setHint(if (span) R.string.question else R.string.text)
        with(view<EditText>(R.id.second)) {
            showIf(span || task.pair)
            setHint(if (span) R.string.context else R.string.second_text)
        }
    }
}
