package io.github.tfdistill.demo

import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.LinearLayout
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.benchmark.Side
import io.github.tfdistill.benchmark.SideBySide
import io.github.tfdistill.text.Bundle as ModelBundle
import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Prediction
import java.util.concurrent.Executor

/** A bundle and what it answered. */
class Compared(val bundle: ModelBundle, val prediction: Prediction)

/** Answers a text with two bundles, on the CPU. */
class CompareModel(services: Services, main: Executor) :
    TextModel<List<Compared>>(services, main, Bundles::names) {
    private val opened =
        HashMap<String, ModelBundle>() // of the worker: checked once, not each time

    override fun answer(
        names: List<String>,
        text: String,
        second: String,
        isCancelled: () -> Boolean,
    ): List<Compared> {
        val sides = ArrayList<Side>()
        try {
            for (name in names) {
                val bundle = opened.getOrPut(name) { bundles.open(name) }
                sides += Side(bundle, services.models.open(bundle, THREADS, Accelerator.CPU))
            }
            val predictions = SideBySide(sides, isCancelled = isCancelled).predict(text, second)
            return sides.zip(predictions) { side, prediction -> Compared(side.bundle, prediction) }
        } finally {
            sides.forEach { it.runner.close() }
        }
    }
}

/** Two models on the same text, side by side. */
class CompareActivity :
    Screen<TextState<List<Compared>>>(R.layout.compare, R.id.first, R.id.second) {
    override val model: CompareModel
        get() = demo.screens.compare

    private var before: List<String> = emptyList()

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        before = chosenBefore(saved)
        view<Button>(R.id.run).setOnClickListener {
            model.run(chosen(), typed(R.id.first), typed(R.id.second))
        }
        view<Button>(R.id.stop).setOnClickListener { model.stop() }
    }

    override fun chosen() =
        listOf(R.id.left, R.id.right).mapNotNull { view<Spinner>(it).selectedItem as String? }

    override fun show(state: TextState<List<Compared>>) {
        view<Spinner>(R.id.left).offer(state.names, before.getOrNull(0))
        val other = before.getOrNull(1) ?: state.names.getOrNull(1)
        view<Spinner>(R.id.right).offer(state.names, other)
        view<Button>(R.id.run).isEnabled = state.names.isNotEmpty()
        view<View>(R.id.stop).showIf(state.running && state.names.isNotEmpty())
        val note = state.result?.let { getString(R.string.compare_note) }
        view<TextView>(R.id.answer).say(resources.message(state) ?: note)
        val rows = resources.comparison(state.result.orEmpty())
        view<LinearLayout>(R.id.table).fill(R.layout.compare_row, rows) { row, cells ->
            for ((id, text) in listOf(R.id.what, R.id.one, R.id.other).zip(cells)) {
                row.part<TextView>(id).text = text
            }
            row.contentDescription = cells.filter { it.isNotEmpty() }.joinToString(", ")
        }
    }
}
