package io.github.tfdistill.demo

import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.LiteRtException
import com.google.ai.edge.litert.StandIn
import io.github.tfdistill.benchmark.AcceleratorException
import io.github.tfdistill.text.SignatureTensors
import io.github.tfdistill.text.TensorRecord
import org.junit.After
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** Against this build's declarations of LiteRT: Gradle's has the library, and not this test. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class AcceleratorRunnerTest {
    private val context = RuntimeEnvironment.getApplication()
    private val litert = Recorder()

    /** Writes down what it is asked for, and fails where it is told to. */
    private class Recorder : StandIn {
        val calls = ArrayList<String>()
        val names = HashMap<Long, String>()
        val open = LinkedHashSet<Long>()
        var failsAt = ""
        var fails: (String) -> Throwable = ::LiteRtException
        var numbers = 3

        /** What an output reads; the same on a CPU alone and with a GPU that takes nothing. */
        var answers: (handle: Long) -> Float = { it.toFloat() }

        private fun call(what: String) {
            calls += what
            if (failsAt.isNotEmpty() && failsAt in what) throw fails("cannot $failsAt.")
        }

        private fun handle(name: String): Long {
            call("open $name")
            val new = names.size + 1L
            names[new] = name
            open += new
            return new
        }

        override fun environment() = handle("environment")

        override fun accelerators(environment: Long) = setOf(Accelerator.CPU)

        override fun model(environment: Long, asset: String, accelerators: Set<Accelerator>) =
            handle("$asset on $accelerators in ${names[environment]}")

        override fun buffer(model: Long, isInput: Boolean, name: String, signature: String?) =
            handle("${if (isInput) "input" else "output"} $name of $signature")

        override fun write(buffer: Long, values: IntArray) =
            call("write ${values.asList()} to ${names[buffer]}")

        override fun read(buffer: Long): FloatArray {
            call("read ${names[buffer]}")
            return FloatArray(numbers) { answers(buffer) }
        }

        override fun run(
            model: Long,
            inputs: Map<String, Long>,
            outputs: Map<String, Long>,
            signature: String?,
        ) {
            val bound = (inputs + outputs).map { "${it.key}=${names[it.value]}" }
            call("run $signature: $bound")
        }

        override fun close(handle: Long) {
            check(open.remove(handle)) { "${names[handle]} was closed twice" }
            call("close ${names[handle]}")
        }
    }

    @Before
    fun standIn() {
        StandIn.current = litert
    }

    @After
    fun none() {
        StandIn.current = null
    }

    private fun tensors(length: Int) =
        SignatureTensors(
            listOf("attention_mask", "input_ids").associateWith {
                TensorRecord("int32", listOf(1, length))
            },
            mapOf("scores" to TensorRecord("float32", listOf(1, 3))),
        )

    private val signatures = mapOf("len2" to tensors(2), "len4" to tensors(4))
    private val two = mapOf("input_ids" to intArrayOf(7, 8), "attention_mask" to intArrayOf(1, 0))

    private fun open() = AcceleratorRunner.open(context, "bundles/a/model.tflite", signatures)

    @Test
    fun `tensors are bound by name and signature, on the GPU alone, and all is closed`() {
        val runner = open()
        assertFalse(runner.sharesWithCpu)
        val outputs = runner.run("len2", two)
        assertEquals(setOf("scores"), outputs.keys)
        assertArrayEquals(floatArrayOf(5f, 5f, 5f), outputs.getValue("scores"), 0f)
        val expected =
            listOf(
                "open environment",
                "open bundles/a/model.tflite on [GPU] in environment",
                "open input attention_mask of len2",
                "open input input_ids of len2",
                "open output scores of len2",
                "write [7, 8] to input input_ids of len2",
                "write [1, 0] to input attention_mask of len2",
                "run len2: [attention_mask=input attention_mask of len2, " +
                    "input_ids=input input_ids of len2, scores=output scores of len2]",
                "read output scores of len2",
            )
        assertEquals(expected, litert.calls)
        litert.calls.clear()
        runner.run("len2", two)
        assertTrue("buffers are made once", litert.calls.none { it.startsWith("open") })
        runner.run("len4", two)
        assertEquals(3, litert.calls.count { it.startsWith("open") && it.endsWith("of len4") })
        litert.calls.clear()
        runner.close()
        assertEquals(emptySet<Long>(), litert.open)
        val last =
            listOf("close bundles/a/model.tflite on [GPU] in environment", "close environment")
        assertEquals(last, litert.calls.takeLast(2))
    }

    @Test
    fun `wherever LiteRT fails, it says where, and nothing stays open`() {
        val places =
            listOf(
                "open environment",
                "model.tflite",
                "open input attention_mask of len2",
                "open input input_ids",
                "open output scores",
                "write [7",
                "run len2",
                "read output",
            )
        for (place in places) {
            litert.failsAt = place
            val error =
                assertThrows(place, AcceleratorException::class.java) {
                    open().use { it.run("len2", two) }
                }
            assertTrue(error.message, " on the GPU: cannot $place" in error.message.orEmpty())
            assertEquals(place, emptySet<Long>(), litert.open)
        }
    }

    @Test
    fun `what the GPU does not take is left to the CPU, and that is known`() {
        litert.failsAt = "on [GPU] in"
        val runner = open()
        assertTrue(runner.sharesWithCpu)
        val models = litert.calls.filter { "model.tflite" in it }
        val expected = listOf("open …[GPU]", "open …[GPU, CPU]", "open …[CPU]", "close …[CPU]")
        assertEquals(
            expected.map { it.replace("…", "bundles/a/model.tflite on ") + " in environment" },
            models,
        )
        val writes = litert.calls.filter { it.startsWith("write [0, 1]") }
        assertEquals(2, writes.size) // by both, of the shorter signature
        assertEquals(4, litert.calls.count { it.startsWith("run len") })
        assertEquals(1 + 1 + 2 * 3, litert.open.size)
        runner.run("len2", two)
        runner.close()
        assertEquals(emptySet<Long>(), litert.open)
    }

    @Test
    fun `a GPU that takes nothing is none, whatever it is called`() {
        litert.failsAt = "on [GPU] in"
        litert.answers = { 0.5f }
        val error = assertThrows(AcceleratorException::class.java) { open() }
        val message = error.message.orEmpty()
        assertTrue(message, "takes no part of len2. LiteRT says: cannot on [GPU] in." in message)
        assertTrue(message, "(accelerators: CPU)" in message)
        assertEquals(emptySet<Long>(), litert.open)
    }

    @Test
    fun `a GPU that takes nothing of one length is none either`() {
        litert.failsAt = "on [GPU] in"
        litert.answers = { if ("len4" in litert.names.getValue(it)) 0.5f else it.toFloat() }
        val error = assertThrows(AcceleratorException::class.java) { open() }
        assertTrue(error.message, "no part of len4" in error.message.orEmpty())
        assertEquals(emptySet<Long>(), litert.open)
    }

    @Test
    fun `a library that is not there is told as any other reason`() {
        litert.failsAt = "environment"
        litert.fails = ::UnsatisfiedLinkError
        val error = assertThrows(AcceleratorException::class.java) { open() }
        assertTrue(error.message, "cannot environment." in error.message.orEmpty())
    }

    @Test
    fun `what fails to close keeps nothing else open`() {
        val runner = open()
        runner.run("len2", two)
        litert.failsAt = "close output"
        assertThrows(LiteRtException::class.java) { runner.close() }
        assertEquals(emptySet<Long>(), litert.open)
    }

    @Test
    fun `an output of another size is no answer`() {
        litert.numbers = 4
        open().use { runner ->
            val error = assertThrows(AcceleratorException::class.java) { runner.run("len2", two) }
            assertTrue(error.message, "expected 3 numbers, received 4" in error.message.orEmpty())
        }
    }

    @Test
    fun `a package that was built without LiteRT says so`() {
        StandIn.current = null
        val error = assertThrows(AcceleratorException::class.java) { open() }
        assertTrue(error.message, "built without LiteRT 2" in error.message.orEmpty())
    }
}
