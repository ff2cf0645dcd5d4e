package io.github.tfdistill.demo

import android.app.Activity
import android.os.Looper
import android.view.View
import java.util.concurrent.AbstractExecutorService
import java.util.concurrent.TimeUnit
import org.robolectric.Shadows.shadowOf

/** Runs jobs when a test says so. */
class Later : AbstractExecutorService() {
    private val jobs = ArrayDeque<Runnable>()

    /** How many jobs wait. */
    val waiting: Int
        get() = jobs.size

    override fun execute(job: Runnable) {
        jobs.add(job)
    }

    /** Runs all that waits, and what that starts on the main thread. */
    fun runAll() {
        shadowOf(Looper.getMainLooper()).idle()
        while (jobs.isNotEmpty()) {
            jobs.removeFirst().run()
            shadowOf(Looper.getMainLooper()).idle()
        }
    }

    override fun shutdown() = Unit

    override fun shutdownNow(): List<Runnable> = emptyList()

    override fun isShutdown() = false

    override fun isTerminated() = false

    override fun awaitTermination(time: Long, unit: TimeUnit) = true
}

/** A view that has to be there. */
fun <T : View> Activity.find(id: Int): T = checkNotNull(findViewById<T>(id))
