package io.github.tfdistill.demo

import org.junit.Assert.assertEquals
import org.junit.Test

class LatestTest {
    private val jobs = ArrayDeque<Runnable>()
    private val latest = Latest { jobs.add(it) }
    private val done = ArrayList<Int>()

    @Test
    fun `of a thousand jobs one waits and the newest runs`() {
        repeat(1000) { number -> latest.submit { done += number } }
        assertEquals(1, jobs.size)
        jobs.removeFirst().run()
        assertEquals(listOf(999), done)
    }

    @Test
    fun `a job that runs is told of a newer one, which is not`() {
        val told = ArrayList<Boolean>()
        latest.submit { isCancelled ->
            told += isCancelled()
            latest.submit { told += it() }
            told += isCancelled()
        }
        while (jobs.isNotEmpty()) jobs.removeFirst().run()
        assertEquals(listOf(false, true, false), told)
    }

    @Test
    fun `what is cancelled before it began never does, and the next one runs`() {
        fun runAll() {
            while (jobs.isNotEmpty()) jobs.removeFirst().run()
        }
        latest.submit { done += 1 }
        latest.cancel()
        runAll()
        latest.submit { done += 2 }
        runAll()
        latest.submit { done += 3 }
        latest.cancel()
        latest.submit { done += 4 }
        runAll()
        assertEquals(listOf(2, 4), done)
    }
}
