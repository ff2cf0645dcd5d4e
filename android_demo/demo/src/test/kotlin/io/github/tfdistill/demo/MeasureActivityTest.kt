package io.github.tfdistill.demo

import android.app.Activity
import android.content.ContentProvider
import android.content.ContentValues
import android.content.Intent
import android.database.Cursor
import android.net.Uri
import android.os.Bundle
import android.os.Looper
import android.os.PowerManager
import android.view.View
import android.view.WindowManager
import android.widget.Button
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.TextView
import io.github.tfdistill.benchmark.Accelerator
import io.github.tfdistill.benchmark.BenchmarkResult
import io.github.tfdistill.benchmark.BenchmarkState
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.text.Toys
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.FileInputStream
import java.io.IOException
import java.io.OutputStream
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemClock

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class MeasureActivityTest : ScreenTest() {
    private val folder = File(application.filesDir, "measured")
    private val place = Uri.parse("content://documents/benchmark.json")

    init {
        begin()
        models.during = { ShadowSystemClock.advanceBy(Duration.ofMillis(20)) }
    }

    private fun start() = open(MeasureActivity::class.java)

    private fun Activity.click(id: Int) = find<Button>(id).performClick()

    private fun Activity.shown(): String = shown(R.id.state)

    private fun Activity.staysOn() =
        window.attributes.flags and WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON != 0

    private fun Activity.rows() =
        find<LinearLayout>(R.id.results).let { list ->
            (0 until list.childCount).map { list.getChildAt(it) }
        }

    private fun measured() =
        start().also {
            it.get().click(R.id.start)
            worker.runAll()
        }

    /** What the screen finds in a new process. */
    private fun measureAgain() =
        with(application) { MeasureModel(this, services, gpu, onMainThread()) }

    private fun lastState() = BenchmarkState.read(File(folder, "benchmark.state.json").readText())

    @Test
    fun `what was asked for is measured, and drawn place by place`() {
        val screen = start().get()
        screen.enter(R.id.lengths, "24, 16")
        screen.enter(R.id.threads, "1,2")
        screen.enter(R.id.runs, "60")
        screen.click(R.id.start)
        worker.runAll()
        assertEquals("Done: pairs-float32", screen.shown())
        val titles =
            screen.rows().map { it.findViewById<TextView>(R.id.case_title)!!.text.toString() }
        assertEquals(
            listOf(16 to 1, 16 to 2, 24 to 1, 24 to 2).map { (length, threads) ->
                "$length tokens, threads: $threads"
            },
            titles,
        )
        for (row in screen.rows()) {
            val figures = row.findViewById<TextView>(R.id.figures)!!.text.toString()
            assertTrue(figures, figures.startsWith("p50 20.00, p90 20.00, p95 20.00, p99 20.00 ms"))
            assertTrue(figures, "in 180 runs" in figures)
            val drawn = row.findViewById<DistributionView>(R.id.distribution)!!
            assertTrue("median 20.00 ms" in drawn.contentDescription)
        }
        val more = screen.shown(R.id.more)
        val same = "24 tokens, threads: 1: answers of"
        assertTrue(more, more.lines().any { same in it && it.endsWith("at most 0.0e+00") })
        assertEquals(BenchmarkState(1, "done", 12, 12, null), lastState())
    }

    @Test
    fun `a device that was hot is said to be throttled`() {
        val power = shadowOf(application.getSystemService(PowerManager::class.java))
        power.setCurrentThermalStatus(PowerManager.THERMAL_STATUS_SEVERE)
        val figures = measured().get().rows().map { it.findViewById<TextView>(R.id.figures)!!.text }
        assertTrue(figures.isNotEmpty() && figures.all { "throttled" in it })
    }

    @Test
    fun `heat during the run is told, also when it passes`() {
        val power = shadowOf(application.getSystemService(PowerManager::class.java))
        models.during = {
            if (models.runs == 5) {
                power.setCurrentThermalStatus(PowerManager.THERMAL_STATUS_MODERATE)
                power.setCurrentThermalStatus(PowerManager.THERMAL_STATUS_NONE)
            }
        }
        val settings = mapOf("bundle" to "pairs-float32", "lengths" to "16", "repetitions" to "2")
        application.screens.measure.start(settings)
        worker.runAll()
        val result = checkNotNull(application.screens.measure.state.result)
        val told = result.measurements.map { it.before?.thermalStatus to it.after?.thermalStatus }
        assertEquals(listOf(0 to 2, 0 to 0), told)
        assertEquals(listOf("The device throttled: thermal status 2."), result.notes)
    }

    @Test
    fun `the thermal status is shown while it measures, and spoken politely`() {
        val screen = start().get()
        val heat = screen.find<TextView>(R.id.heat)
        val power = shadowOf(application.getSystemService(PowerManager::class.java))
        val told = mapOf(100 to PowerManager.THERMAL_STATUS_SEVERE, 200 to 0, 300 to 1)
        val message = ArrayList<String>()
        models.during = {
            ShadowSystemClock.advanceBy(Duration.ofMillis(20))
            told[models.runs]?.let {
                power.setCurrentThermalStatus(it)
                shadowOf(Looper.getMainLooper()).idle()
                message += "${heat.text} ${heat.visibility == View.VISIBLE}"
            }
        }
        assertEquals(View.GONE, heat.visibility)
        assertEquals(View.ACCESSIBILITY_LIVE_REGION_POLITE, heat.accessibilityLiveRegion)
        screen.click(R.id.start)
        worker.runAll()
        val expected = listOf("severe", "none", "light").map { "Thermal status: $it true" }
        assertEquals(expected, message)
        assertEquals("Done: pairs-float32", screen.shown())
        assertEquals(View.GONE, heat.visibility)
        assertNull(screen.resources.heat(99)) // a later Android's
    }

    @Test
    fun `what is shared is the result, for the chosen app to read`() {
        val screen = start().get()
        assertEquals(View.GONE, screen.find<View>(R.id.share).visibility)
        screen.click(R.id.start)
        worker.runAll()
        screen.click(R.id.share)
        val chooser = shadowOf(screen).nextStartedActivity
        assertEquals(Intent.ACTION_CHOOSER, chooser.action)
        @Suppress("DEPRECATION") // the typed successors begin with API 33
        val intent = checkNotNull(chooser.getParcelableExtra<Intent>(Intent.EXTRA_INTENT))
        assertEquals(Intent.ACTION_SEND, intent.action)
        assertEquals("application/json", intent.type)
        val grants =
            Intent.FLAG_GRANT_READ_URI_PERMISSION or
                Intent.FLAG_GRANT_WRITE_URI_PERMISSION or
                Intent.FLAG_GRANT_PERSISTABLE_URI_PERMISSION or
                Intent.FLAG_GRANT_PREFIX_URI_PERMISSION
        assertEquals(Intent.FLAG_GRANT_READ_URI_PERMISSION, intent.flags and grants)
        assertEquals("benchmark-pairs-float32.json", intent.getStringExtra(Intent.EXTRA_SUBJECT))
        @Suppress("DEPRECATION")
        val place = checkNotNull(intent.getParcelableExtra<Uri>(Intent.EXTRA_STREAM))
        assertEquals(place, intent.clipData?.getItemAt(0)?.uri)
        val provider = Robolectric.buildContentProvider(ResultProvider::class.java).create().get()
        val content = FileInputStream(provider.openFile(place, "r").fileDescriptor).readBytes()
        assertEquals(
            application.screens.measure.state.result,
            BenchmarkResult.read(String(content)),
        )
    }

    @Test
    fun `numbers out of bounds are named and nothing runs`() {
        val screen = start().get()
        screen.enter(R.id.threads, "0")
        screen.enter(R.id.runs, "")
        screen.click(R.id.start)
        worker.runAll()
        assertTrue(screen.shown(), "threads" in screen.shown() && "runs" in screen.shown())
        assertEquals(0, models.runs)
    }

    @Test
    fun `progress is shown, and stop stops between two inferences`() {
        val screen = start().get()
        models.during = {
            ShadowSystemClock.advanceBy(Duration.ofMillis(20))
            if (models.runs == 200) {
                shadowOf(Looper.getMainLooper()).idle()
                assertEquals(1, screen.find<ProgressBar>(R.id.progress).progress)
                assertEquals(6, screen.find<ProgressBar>(R.id.progress).max)
                assertTrue(screen.staysOn())
                screen.click(R.id.stop)
            }
        }
        screen.click(R.id.start)
        assertEquals(View.GONE, screen.find<View>(R.id.form).visibility)
        worker.runAll()
        assertEquals(200, models.runs)
        assertEquals(0, models.open)
        assertTrue(screen.shown(), screen.shown().startsWith("Stopped"))
        assertEquals(View.VISIBLE, screen.find<View>(R.id.form).visibility)
        assertEquals("failed", lastState().state)
        assertFalse(screen.staysOn())
    }

    @Test
    fun `turning the screen goes on measuring`() {
        val controller = start()
        controller.get().click(R.id.start)
        controller.recreate()
        worker.runAll()
        assertEquals("Done: pairs-float32", controller.get().shown())
        assertEquals(2, controller.get().rows().size)
    }

    @Test
    fun `leaving the screen stops`() {
        val controller = start()
        controller.get().click(R.id.start)
        controller.pause().stop()
        worker.runAll()
        assertEquals(0, models.runs)
        controller.restart()
        assertTrue(controller.get().shown().startsWith("Stopped"))
    }

    @Test
    fun `when Android ended the app in the middle, the screen says so`() {
        folder.mkdirs()
        val state = BenchmarkState(1, BenchmarkState.RUNNING, 3, 12, null)
        File(folder, "benchmark.state.json").writeText(state.toJson())
        val screen = start().get()
        assertTrue(screen.shown(), "(3 of 12 done)" in screen.shown())
        screen.click(R.id.start)
        worker.runAll()
        assertEquals("Done: pairs-float32", screen.shown())
    }

    @Test
    fun `the last result is there when the app comes back, and a damaged one is none`() {
        measured().pause().stop().destroy()
        val again = measureAgain()
        worker.runAll()
        assertEquals(Phase.DONE, again.state.phase)
        File(folder, "benchmark.json").writeText("{")
        val damaged = measureAgain()
        worker.runAll()
        assertEquals(null, damaged.state.result)
    }

    /** The app that keeps documents, as far as it is asked to delete one. */
    class Documents : ContentProvider() {
        override fun onCreate() = true

        override fun call(method: String, arg: String?, extras: Bundle?): Bundle {
            calls += method
            return Bundle()
        }

        override fun getType(uri: Uri): String? = null

        override fun query(
            uri: Uri,
            projection: Array<out String>?,
            selection: String?,
            selectionArgs: Array<out String>?,
            sortOrder: String?,
        ): Cursor? = null

        override fun insert(uri: Uri, values: ContentValues?): Uri? = null

        override fun update(
            uri: Uri,
            values: ContentValues?,
            selection: String?,
            selectionArgs: Array<out String>?,
        ): Int = 0

        override fun delete(uri: Uri, selection: String?, selectionArgs: Array<out String>?): Int =
            0

        companion object {
            val calls = ArrayList<String>()
        }
    }

    private fun save(stream: OutputStream): Activity {
        Robolectric.setupContentProvider(Documents::class.java, place.authority)
        Documents.calls.clear()
        val screen = measured().get()
        screen.click(R.id.save)
        val intent = shadowOf(screen).nextStartedActivityForResult.intent
        assertEquals(Intent.ACTION_CREATE_DOCUMENT, intent.action)
        assertEquals("benchmark-pairs-float32.json", intent.getStringExtra(Intent.EXTRA_TITLE))
        shadowOf(application.contentResolver).registerOutputStream(place, stream)
        shadowOf(screen).receiveResult(intent, Activity.RESULT_OK, Intent().setData(place))
        worker.runAll()
        return screen
    }

    @Test
    fun `the result is saved where the user says, whole`() {
        val written = ByteArrayOutputStream()
        assertEquals("Saved.", save(written).shown(R.id.saved))
        val result = BenchmarkResult.read(String(written.toByteArray()))
        assertEquals(application.screens.measure.state.result, result)
        assertEquals(6, result.measurements.size)
        assertTrue(Documents.calls.isEmpty())
    }

    @Test
    fun `storage that is full is said to be and the result stays`() {
        val full =
            object : OutputStream() {
                override fun write(byte: Int): Unit = throw IOException("No space left on device")
            }
        val screen = save(full)
        assertEquals("Not saved: No space left on device", screen.shown(R.id.saved))
        assertEquals(View.VISIBLE, screen.find<View>(R.id.save).visibility)
        assertEquals(listOf("android:deleteDocument"), Documents.calls)
    }

    @Test
    fun `whatever the app that keeps documents throws, this one goes on`() {
        for (error in listOf(SecurityException("no more"), IllegalStateException("locked"))) {
            val broken =
                object : OutputStream() {
                    override fun write(byte: Int): Unit = throw error
                }
            assertEquals("Not saved: ${error.message}", save(broken).shown(R.id.saved))
        }
    }

    @Test
    fun `on the GPU the answers are compared first, and the result says what it is of`() {
        val screen = start().get()
        screen.click(R.id.gpu)
        screen.click(R.id.start)
        worker.runAll()
        assertEquals("Done: pairs-float32", screen.shown())
        assertEquals(setOf(Accelerator.GPU), models.openedOn.toSet())
        val result = checkNotNull(application.screens.measure.state.result)
        assertEquals(setOf("gpu"), result.measurements.map { it.delegate }.toSet())
        assertEquals(setOf("gpu"), result.answers.map { it.delegate }.toSet())
        assertTrue("24 golden answers were compared on the GPU first" in result.notes.single())
        assertTrue(marks().isEmpty()) // the comparison of a benchmark switches nothing on
        val title = screen.rows().first().findViewById<TextView>(R.id.case_title)
        assertEquals("GPU, 16 tokens, threads: 1", title?.text.toString())
    }

    private fun marks() = application.getSharedPreferences("gpu", 0).all.keys

    @Test
    fun `a process that ends on the GPU leaves its mark behind`() {
        models.during = {
            if (models.runs == 3) assertEquals(setOf("trying"), marks())
            if (models.runs == 40) assertEquals(setOf("trying"), marks()) // it measures by now
        }
        models.gpuShares = true
        val settings = mapOf("bundle" to "pairs-float32", "accelerator" to "gpu", "runs" to "4")
        application.screens.measure.start(settings + ("min_seconds" to "0"))
        worker.runAll()
        val notes = application.screens.measure.state.result?.notes.orEmpty()
        assertTrue("$notes", notes.last().startsWith("The CPU computed the part"))
        assertTrue(models.runs > 40)
    }

    @Test
    fun `without a GPU it fails with the reason, and is not measured on the CPU instead`() {
        application.services = Services(Toys, AssetModels(application), worker)
        val screen = start().get()
        screen.click(R.id.gpu)
        screen.click(R.id.start)
        worker.runAll()
        assertTrue(screen.shown(), "model.tflite on the GPU: " in screen.shown())
        assertFalse(File(folder, "benchmark.json").exists())
    }

    @Test
    fun `a GPU that answers differently measures nothing`() {
        models.onGpu = { 1.2f * it }
        val screen = start().get()
        screen.click(R.id.gpu)
        screen.click(R.id.start)
        worker.runAll()
        assertTrue(screen.shown(), screen.shown().startsWith("Nothing was measured: answers of"))
        assertNull(application.screens.measure.state.result)
        assertEquals(24 to listOf(Accelerator.GPU), models.runs to models.openedOn)
        assertEquals(0, models.open)
        assertTrue(marks().isEmpty())
    }

    @Test
    fun `the main screen's model is closed before another one is opened on the GPU`() {
        val main = Robolectric.buildActivity(MainActivity::class.java).setup()
        worker.runAll()
        assertEquals(1, models.open)
        val screen = start().get()
        screen.click(R.id.gpu)
        screen.click(R.id.start)
        worker.runAll()
        assertEquals(1, models.mostOpen)
        main.destroy()
    }

    @Test
    fun `full storage while it measures is a failure and no crash`() {
        folder.writeText("no folder")
        val screen = measured().get()
        assertTrue(screen.shown(), screen.shown().startsWith("Nothing was measured"))
        assertFalse(folder.isDirectory)
        assertEquals(0, models.open)
    }

    @Test
    fun `a runtime that ends with an error is a failure with its reason`() {
        models.during = { throw UnsatisfiedLinkError("no symbol in the library") }
        val shown = measured().get().shown()
        assertTrue(shown, "no symbol in the library" in shown)
        assertEquals(BenchmarkState(1, "failed", 0, 0, "no symbol in the library"), lastState())
    }
}
