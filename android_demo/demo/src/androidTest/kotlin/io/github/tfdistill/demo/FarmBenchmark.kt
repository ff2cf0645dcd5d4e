package io.github.tfdistill.demo

import android.content.Intent
import androidx.test.platform.app.InstrumentationRegistry
import io.github.tfdistill.benchmark.BenchmarkRequest
import io.github.tfdistill.benchmark.BenchmarkState
import io.github.tfdistill.benchmark.ResultFiles
import io.github.tfdistill.text.Bundles
import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Test

/**
 * Measures on a device farm, where no harness sends intents: starts [BenchmarkActivity] once for
 * each bundle, and leaves `farm-N.json` in the app's external folder `benchmark`.
 *
 * The arguments of the instrumentation are those of the intent but for its `run_id`; without
 * `bundle` all are measured. The activity keeps the app in the foreground, on the fast cores.
 */
class FarmBenchmark {
    private val instrumentation = InstrumentationRegistry.getInstrumentation()
    private val context = instrumentation.targetContext
    private val folder =
        File(context.getExternalFilesDir(null) ?: context.filesDir, ResultFiles.FOLDER)

    @Test
    fun measuresEachBundle() {
        val extras = InstrumentationRegistry.getArguments()
        val settings =
            BenchmarkRequest.KEYS.mapNotNull { key -> extras.getString(key)?.let { key to it } }
        val arguments = settings.toMap() - RUN_ID
        val source = (context.applicationContext as DemoApplication).services.source
        val names = arguments[BUNDLE]?.let(::listOf) ?: Bundles(source).names()
        val faults =
            names.mapIndexedNotNull { number, name ->
                val runId = "farm-$number"
                val extras = arguments + mapOf(RUN_ID to runId, BUNDLE to name)
                measure(runId, extras)?.let { "$name: $it" }
            }
        assertEquals(emptyList<String>(), faults)
    }

    /** Returns why a bundle could not be measured; null if it was. */
    private fun measure(runId: String, extras: Map<String, String>): String? {
        val files = ResultFiles(folder, runId)
        folder.listFiles { file -> file.name.startsWith("$runId.") }?.forEach { it.delete() }
        val intent = Intent(context, BenchmarkActivity::class.java)
        intent.addFlags(Intent.FLAG_ACTIVITY_NEW_TASK)
        for ((key, value) in extras) put(intent, key, value)
        val activity = instrumentation.startActivitySync(intent)
        try {
            while (true) {
                val state = files.state()
                if (state?.state == BenchmarkState.DONE) return null
                if (state?.state == BenchmarkState.FAILED) return state.error
                Thread.sleep(POLL_MS)
            }
        } finally {
            instrumentation.runOnMainSync(activity::finish)
        }
    }

    /** With the type that the protocol gives the key; what is no number is refused there. */
    private fun put(intent: Intent, key: String, value: String) {
        val number = value.toFloatOrNull()
        when {
            key in BenchmarkRequest.SECONDS && number != null -> intent.putExtra(key, number)
            key in BenchmarkRequest.COUNTS && value.toIntOrNull() != null ->
                intent.putExtra(key, value.toInt())
            else -> intent.putExtra(key, value)
        }
    }

    private companion object {
        const val RUN_ID = "run_id"
        const val BUNDLE = "bundle"
        const val POLL_MS = 200L
    }
}
