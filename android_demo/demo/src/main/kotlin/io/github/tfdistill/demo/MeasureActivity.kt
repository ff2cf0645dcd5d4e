package io.github.tfdistill.demo

import android.content.ActivityNotFoundException
import android.content.ClipData
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.view.WindowManager
import android.widget.Button
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.Switch
import android.widget.TextView
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.CaseSummary
import io.github.tfdistill.benchmark.Distribution

/** Measures a bundle, draws what came out, saves and shares it. */
class MeasureActivity : Screen<MeasureState>(R.layout.measure) {
    override val model: MeasureModel
        get() = demo.screens.measure

    private var drawn: BenchmarkResult? = null
    private var before: String? = null

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        before = chosenBefore(saved).firstOrNull()
        view<Button>(R.id.start).setOnClickListener {
            demo.screens.releaseMain()
            model.start(settings())
        }
        view<Button>(R.id.stop).setOnClickListener { model.stop() }
        view<Button>(R.id.save).setOnClickListener { choosePlace() }
        view<Button>(R.id.share).setOnClickListener { share() }
    }

    /** In the background Android slows an app down: such figures would be of no use. */
    override fun onStop() {
        if (!isChangingConfigurations) model.stop()
        super.onStop()
    }

    override fun chosen() = listOfNotNull(view<Spinner>(R.id.bundles).selectedItem as String?)

    override fun onActivityResult(request: Int, result: Int, data: Intent?) {
        if (request == SAVE && result == RESULT_OK) data?.data?.let(model::save)
    }

    private fun settings(): Map<String, String?> {
        val lengths = typed(R.id.lengths).filterNot(Char::isWhitespace)
        return mapOf(
            "bundle" to view<Spinner>(R.id.bundles).selectedItem as String?,
            "lengths" to lengths.ifEmpty { null },
            "threads" to typed(R.id.threads).filterNot(Char::isWhitespace),
            "accelerator" to if (view<Switch>(R.id.gpu).isChecked) "gpu" else "cpu",
            "warmup" to typed(R.id.warmup).trim(),
            "runs" to typed(R.id.runs).trim(),
        )
    }

    private fun choosePlace() {
        val name = model.state.result?.models?.first()?.name ?: return
        val intent =
            Intent(Intent.ACTION_CREATE_DOCUMENT)
                .addCategory(Intent.CATEGORY_OPENABLE)
                .setType(ResultProvider.MIME_TYPE)
                .putExtra(Intent.EXTRA_TITLE, "benchmark-$name.json")
        try {
            startActivityForResult(intent, SAVE)
        } catch (_: ActivityNotFoundException) {
            view<TextView>(R.id.saved).say(getString(R.string.no_picker))
        }
    }

    /** The user chooses the app; that one may read the result, and only read it. */
    private fun share() {
        val name = model.state.result?.models?.first()?.name ?: return
        val title = "benchmark-$name.json"
        val uri = ResultProvider.uriOf(MeasureModel.FILE)
        val intent =
            Intent(Intent.ACTION_SEND)
                .setType(ResultProvider.MIME_TYPE)
                .putExtra(Intent.EXTRA_STREAM, uri)
                .putExtra(Intent.EXTRA_SUBJECT, title)
                .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION)
        intent.clipData = ClipData.newRawUri(title, uri) // what the grant is for
        startActivity(Intent.createChooser(intent, getText(R.string.share)))
    }

    override fun show(state: MeasureState) {
        val running = state.phase == Phase.RUNNING
        val keep = WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON
        if (running) window.addFlags(keep) else window.clearFlags(keep)
        view<Spinner>(R.id.bundles).offer(state.names, before)
        view<View>(R.id.form).showIf(!running)
        view<Button>(R.id.start).isEnabled = state.names.isNotEmpty()
        for (id in listOf(R.id.stop, R.id.progress)) view<View>(id).showIf(running)
        with(view<ProgressBar>(R.id.progress)) {
            max = maxOf(1, state.of)
            progress = state.finished
        }
        view<TextView>(R.id.state).say(sentence(state))
        val status = state.thermalStatus.takeIf { running }
        val heat = resources.heat(status)?.let { getString(R.string.heat_now, it) }
        view<TextView>(R.id.heat).say(heat)
        for (id in listOf(R.id.save, R.id.share)) view<View>(id).showIf(state.result != null)
        view<TextView>(R.id.saved)
            .say(
                when (val saved = state.saved) {
                    null -> null
                    is Saved.Done -> getString(R.string.saved)
                    is Saved.Failed -> getString(R.string.not_saved, saved.reason)
                }
            )
        if (state.result !== drawn) draw(state.result)
    }

    private fun sentence(state: MeasureState): String =
        when (state.phase) {
            Phase.IDLE -> getString(R.string.measure_hint)
            Phase.RUNNING -> getString(R.string.benchmark_running, state.finished, state.of)
            Phase.DONE -> getString(R.string.measure_done, state.result?.models?.first()?.name)
            Phase.CANCELLED -> getString(R.string.measure_cancelled)
            Phase.FAILED -> getString(R.string.benchmark_failed, state.error)
            Phase.INTERRUPTED -> getString(R.string.measure_interrupted, state.finished, state.of)
        }

    private fun draw(result: BenchmarkResult?) {
        drawn = result
        val cases = result?.let(CaseSummary::of).orEmpty()
        view<LinearLayout>(R.id.results).fill(R.layout.benchmark_case, cases) { row, case ->
            val distribution = Distribution(case.samplesMs)
            row.part<TextView>(R.id.case_title).text = resources.title(case)
            row.part<TextView>(R.id.figures).text = resources.figures(case, distribution.summary)
            row.part<DistributionView>(R.id.distribution).distribution = distribution
        }
        if (result == null) return
        val lines =
            result.answers.map { resources.answers(it) } +
                result.failures.map { getString(R.string.not_measured, it.what, it.error) } +
                result.notes.filter { result.measurements.any { row -> row.delegate == "gpu" } }
        view<TextView>(R.id.more).text = lines.joinToString("\n")
    }

    private companion object {
        const val SAVE = 1
    }
}
