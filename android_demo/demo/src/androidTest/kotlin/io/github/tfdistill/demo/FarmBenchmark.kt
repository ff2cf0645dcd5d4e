package io.github.tfdistill.demo

import android.content.Intent
import androidx.test.platform.app.InstrumentationRegistry
import io.github.tfdistill.benchmark.BenchmarkRequest
import io.github.tfdistill.benchmark.ResultFiles
import io.github.tfdistill.text.Bundles
import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Test

/**
 * Measures on a device farm: opens [MeasureActivity], which keeps the app in the foreground, on the
 * fast cores, starts it once for each bundle, and leaves `farm-N.json` in the app's external folder
 * `benchmark`.
 *
 * The arguments of the instrumentation are [BenchmarkRequest.KEYS]; without `bundle` all are
 * measured.
 */
class FarmBenchmark {
    private val instrumentation = InstrumentationRegistry.getInstrumentation()
    private val context = instrumentation.targetContext
    private val demo = context.applicationContext as DemoApplication
    private val folder =
        File(context.getExternalFilesDir(null) ?: context.filesDir, ResultFiles.FOLDER)

    @Test
    fun measuresEachBundle() {
        val arguments = InstrumentationRegistry.getArguments()
        val settings = BenchmarkRequest.KEYS.associateWith { arguments.getString(it) }
        val names = settings["bundle"]?.let(::listOf) ?: Bundles(demo.services.source).names()
        val intent = Intent(context, MeasureActivity::class.java)
        val screen =
            instrumentation.startActivitySync(intent.addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        val faults =
            names.mapIndexedNotNull { number, name ->
                File(folder, "farm-$number.json").delete()
                val end = measure(settings + ("bundle" to name))
                val result = end.result.takeIf { end.phase == Phase.DONE }
                result?.let { ResultFiles(folder, "farm-$number").write(it) }
                if (result == null) "$name: ${end.error ?: STOPPED}" else null
            }
        instrumentation.runOnMainSync(screen::finish)
        assertEquals(emptyList<String>(), faults)
    }

    private fun measure(settings: Map<String, String?>): MeasureState {
        val model = demo.screens.measure
        instrumentation.runOnMainSync { model.start(settings) }
        while (true) {
            instrumentation.waitForIdleSync()
            var state = MeasureState(phase = Phase.RUNNING)
            instrumentation.runOnMainSync { state = model.state }
            if (state.phase != Phase.RUNNING) return state
            Thread.sleep(POLL_MS)
        }
    }

    private companion object {
        const val POLL_MS = 200L
        const val STOPPED =
            "the app in the foreground: expected until the end, received another in front of it."
    }
}
