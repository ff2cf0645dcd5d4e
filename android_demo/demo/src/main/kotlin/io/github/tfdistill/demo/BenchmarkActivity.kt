package io.github.tfdistill.demo

import android.app.Activity
import android.os.Bundle
import android.view.WindowManager
import android.widget.TextView
import io.github.tfdistill.benchmark.BenchmarkJob
import io.github.tfdistill.benchmark.BenchmarkState

/**
 * Started by `tfdistill benchmark --device adb --app`; only adb's shell may start it.
 *
 * It measures once and shows its progress. A benchmark that is no longer in the foreground is
 * cancelled: Android schedules background work on little cores, and such figures would be wrong.
 */
class BenchmarkActivity : Activity() {
    private val demo: DemoApplication
        get() = application as DemoApplication

    private var job: BenchmarkJob? = null

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        window.addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
        showLayout(R.layout.benchmark)
        if (saved != null) {
            show(null) // Android brought it back without adb: nobody waits for a result
            return
        }
        val handler = demo.onMainThread()
        val started =
            BenchmarkJob(applicationContext, demo.services, demo.gpu, extras()) { state ->
                handler.execute { show(state) }
            }
        job = started
        demo.services.worker.execute(started)
    }

    /** Home, a call, another app, the screen that turns off, or the keyguard. */
    override fun onStop() {
        if (!isChangingConfigurations) job?.cancel(IN_BACKGROUND)
        super.onStop()
    }

    override fun onDestroy() {
        job?.cancel(CLOSED)
        super.onDestroy()
    }

    private fun show(state: BenchmarkState?) {
        view<TextView>(R.id.state)
            .say(
                when (state?.state) {
                    BenchmarkState.RUNNING ->
                        getString(R.string.benchmark_running, state.finished, state.of)
                    BenchmarkState.DONE -> getString(R.string.benchmark_done)
                    BenchmarkState.FAILED -> getString(R.string.benchmark_failed, state.error)
                    else -> getString(R.string.benchmark_over)
                }
            )
    }

    /** Values that an intent may bring, and nothing that would have to be unpacked. */
    private fun extras(): Map<String, Any?> {
        val extras = intent.extras ?: return emptyMap()
        @Suppress("DEPRECATION") // the typed successors begin with API 33
        return extras.keySet().associateWith { extras.get(it) }
    }

    private companion object {
        const val IN_BACKGROUND =
            "the app in the foreground: expected until the end, received onStop while it " +
                "measured. Leave the device alone, awake and unlocked."
        const val CLOSED = "the activity: expected until the end, received onDestroy."
    }
}
