package io.github.tfdistill.demo

import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicReference

/**
 * Runs the newest of the jobs that it is given: one that waits is dropped for a newer one, one that
 * runs is told to stop. However many are given, at most one waits.
 *
 * Its methods are called on one thread; jobs run on the worker, one after the other.
 */
class Latest(private val worker: Executor) {
    private class Job(val body: (isCancelled: () -> Boolean) -> Unit) {
        @Volatile var isCancelled = false
    }

    private val waiting = AtomicReference<Job?>()
    private var newest: Job? = null

    /** Takes the place of all jobs before. */
    fun submit(body: (isCancelled: () -> Boolean) -> Unit) {
        cancel()
        val job = Job(body)
        newest = job
        if (waiting.getAndSet(job) == null) worker.execute(::runWaiting)
    }

    /** Stops what runs, and drops what waits. */
    fun cancel() {
        newest?.isCancelled = true
        newest = null
    }

    private fun runWaiting() {
        val job = waiting.getAndSet(null) ?: return
        if (!job.isCancelled) job.body { job.isCancelled }
    }
}
