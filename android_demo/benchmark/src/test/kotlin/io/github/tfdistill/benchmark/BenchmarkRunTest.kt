package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.GoldenExamples
import io.github.tfdistill.text.ModelRunner
import io.github.tfdistill.text.SignatureTensors
import io.github.tfdistill.text.Toys
import java.util.concurrent.CancellationException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class BenchmarkRunTest {
    private val bundle = Bundles(Toys).open("pairs-float32")
    private val golden = GoldenExamples.read(bundle, Toys)
    private val clock = Clock()
    private val models = ArrayList<Model>()
    private var broken = emptySet<Int>()

    /** Time passes only where something says so. */
    private class Clock : Probe {
        var ns = 0L
        var slept = 0.0
        var calls = 0

        override fun now() = "at $ns"

        override fun nanoTime() = ns

        override fun conditions() = Conditions(now(), thermalStatus = calls++)

        override fun residentBytes() = 1000L

        override fun peakResidentBytes() = 3000L

        override fun sleep(seconds: Double) {
            slept += seconds
        }
    }

    private class Fed(val signature: String, val inputs: Map<String, IntArray>)

    /** 2 ms a run, 1 more for the first, 0.5 more at the longer length. */
    private inner class Model(val threads: Int) : ModelRunner {
        val fed = ArrayList<Fed>()
        var closed = false

        override val signatures = emptyMap<String, SignatureTensors>()

        override fun run(
            signature: String,
            inputs: Map<String, IntArray>,
        ): Map<String, FloatArray> {
            check(!closed)
            clock.ns += if (fed.isEmpty()) 3_000_000 else 2_000_000
            if (signature == "len24") clock.ns += 500_000
            fed += Fed(signature, inputs)
            return mapOf("scores" to floatArrayOf(0.2f, 0.3f, 0.5f))
        }

        override fun close() {
            closed = true
        }
    }

    private val request =
        BenchmarkRequest(
            bundle = bundle.name,
            threads = listOf(1, 2),
            warmup = 3,
            runs = 5,
            minSeconds = 0.0,
            repetitions = 2,
            rounds = 5,
            coolDownSeconds = 0.5,
        )

    private fun run(
        request: BenchmarkRequest = this.request,
        isCancelled: () -> Boolean = { false },
        progress: (Int, Int) -> Unit = { _, _ -> },
    ) =
        BenchmarkRun(
                bundle,
                request,
                golden,
                clock,
                { threads ->
                    check(threads !in broken) { "no $threads threads here" }
                    clock.ns += 7_000_000
                    Model(threads).also { models += it }
                },
                isCancelled,
                progress,
            )
            .measure()

    @Test
    fun `every case is measured in every repetition, with a file opened anew`() {
        val told = ArrayList<Pair<Int, Int>>()
        val measured = run(progress = { finished, of -> told += finished to of })
        val cases =
            measured.measurements.map { Triple(it.sequenceLength, it.threads, it.repetition) }
        assertEquals(8, cases.toSet().size)
        assertEquals(listOf(0, 0, 0, 0, 1, 1, 1, 1), cases.map { it.third })
        assertEquals((0..8).map { it to 8 }, told)
        assertEquals(4.0, clock.slept, 0.0)
        assertTrue(models.all { it.closed })
        for (row in measured.measurements) {
            val more = if (row.sequenceLength == 24) 0.5 else 0.0
            assertEquals(7.0, row.initMs)
            assertEquals(3.0 + more, row.firstInferenceMs)
            assertEquals(List(3) { 2.0 + more }, row.warmupMs)
            assertEquals(List(5) { 2.0 + more }, row.samplesMs)
            assertEquals("len${row.sequenceLength}", row.signature)
            assertEquals(1 to 1000L, row.blockRuns to row.baselineRssBytes)
            assertEquals(3000L, row.peakRssBytes)
            assertEquals(1, row.after!!.thermalStatus!! - row.before!!.thermalStatus!!)
        }
    }

    @Test
    fun `the seed decides the order`() {
        fun order(seed: Int) =
            run(request.copy(seed = seed)).measurements.map { it.sequenceLength to it.threads }
        assertEquals(order(3), order(3))
        assertTrue((0..5).map(::order).toSet().size > 1)
    }

    @Test
    fun `only the lengths that were asked for are measured`() {
        val measured = run(request.copy(lengths = listOf(24), threads = listOf(3), repetitions = 1))
        assertEquals(listOf(24 to 3), measured.measurements.map { it.sequenceLength to it.threads })
        val error =
            assertThrows(IllegalArgumentException::class.java) {
                run(request.copy(lengths = listOf(20)))
            }
        assertTrue(error.message, "[16, 24]" in error.message.orEmpty())
    }

    @Test
    fun `each length is fed with the examples that it is the shortest for`() {
        run(request.copy(runs = 60, repetitions = 1))
        for (model in models.filter { it.fed.map { feed -> feed.signature }.toSet().size == 1 }) {
            val sizes = model.fed.map { feed -> feed.inputs.getValue("attention_mask").sum() }
            val signature = model.fed.first().signature
            assertTrue("$sizes", sizes.all { if (signature == "len16") it <= 16 else it in 17..24 })
            assertTrue(model.fed.map { it.inputs.getValue("input_ids").asList() }.toSet().size > 2)
        }
    }

    @Test
    fun `texts are measured whole, once they are warm`() {
        val texts = run().texts.filter { it.words == null }
        assertEquals(
            listOf(1 to 0, 2 to 0, 1 to 1, 2 to 1),
            texts.map { it.threads to it.repetition },
        )
        for (row in texts) {
            assertEquals(golden.texts.size, row.samplesMs.size)
            assertEquals(List(row.samplesMs.size) { 0.0 }, row.tokenizerMs)
            assertTrue(row.samplesMs.all { it == 2.0 || it == 2.5 })
        }
        assertTrue(golden.texts.any { it.second != null })
    }

    @Test
    fun `texts of so many words are measured, and say their tokens before they are cut`() {
        val rows = run(request.copy(threads = listOf(1), repetitions = 1)).texts
        assertEquals(listOf(null, 16, 80, 256), rows.map { it.words })
        assertEquals(null, rows.first().tokens)
        for ((words, tokens) in rows.drop(1).map { it.words!! to it.tokens!! }) {
            val texts = golden.textsOf(words)
            val counts =
                texts.map { (text, pair) -> listOf(text, pair!!).map { it.split(" ").size } }
            assertEquals(List(golden.texts.size) { listOf(words / 2, words / 2) }, counts)
            assertEquals(
                texts.maxOf { bundle.tokenizer.encode(it.first, it.second, 999).wholeLength },
                tokens,
            )
            val (first, pair) = golden.texts.first()
            assertTrue(
                texts.first().first.startsWith("$first $pair".split(" ").take(8).joinToString(" "))
            )
        }
        assertTrue(rows.last().tokens!! > 24)
    }

    @Test
    fun `what fails is said and the rest is measured`() {
        broken = setOf(2)
        val told = ArrayList<Int>()
        val measured = run(request.copy(repetitions = 1)) { finished, _ -> told += finished }
        assertEquals(
            setOf(16 to 1, 24 to 1),
            measured.measurements.map { it.sequenceLength to it.threads }.toSet(),
        )
        val names = measured.failures.map { it.what }.toSet()
        assertEquals(
            (listOf("length 16", "length 24", "texts", "answers") +
                    listOf(16, 80, 256).map { "texts of $it words" })
                .map { "$it, threads 2" }
                .toSet(),
            names,
        )
        assertTrue(measured.failures.all { it.error == "no 2 threads here" })
        assertEquals((0..4).toList(), told)
        assertEquals(
            listOf(16 to 1, 24 to 1),
            measured.answers.map { it.sequenceLength to it.threads },
        )
    }

    @Test
    fun `where nothing can be measured there is no result`() {
        broken = setOf(1, 2)
        val error = assertThrows(IllegalStateException::class.java) { run() }
        assertEquals("no 1 threads here", error.message?.replace('2', '1'))
    }

    @Test
    fun `it stops when it is told to and closes the file`() {
        var calls = 0
        assertThrows(CancellationException::class.java) { run(isCancelled = { ++calls > 20 }) }
        assertEquals(20, models.sumOf { it.fed.size })
        assertTrue(models.all { it.closed })
    }

    @Test
    fun `a stop during the last inference leaves no result`() {
        run()
        val last = models.sumOf { it.fed.size }
        models.clear()
        val stopped = { models.sumOf { it.fed.size } == last }
        assertThrows(CancellationException::class.java) { run(isCancelled = stopped) }
    }
}
