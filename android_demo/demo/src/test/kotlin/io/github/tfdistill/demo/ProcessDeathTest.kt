package io.github.tfdistill.demo

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.os.Parcel
import android.view.View
import android.widget.Button
import android.widget.Spinner
import io.github.tfdistill.benchmark.BenchmarkResult
import java.io.ByteArrayOutputStream
import java.io.File
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemClock
import org.robolectric.util.ReflectionHelpers
import org.robolectric.util.ReflectionHelpers.ClassParameter

/** Android may end the app while nobody looks at it, and begins it anew where it was left. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26, 35])
class ProcessDeathTest : ScreenTest() {
    private val long = "good film, \uD83D".repeat(9_000).take(100_000)

    init {
        models.during = { ShadowSystemClock.advanceBy(Duration.ofMillis(20)) }
        begin(TwoPairs)
    }

    private fun <T : Activity> start(screen: Class<T>): ActivityController<T> = open(screen)

    private fun leave(screen: ActivityController<*>): Bundle =
        Bundle().also { screen.pause().stop().saveInstanceState(it).destroy() }

    private fun <T : Activity> comeBack(screen: Class<T>, saved: Bundle): T {
        begin(TwoPairs)
        return Robolectric.buildActivity(screen).setup(saved).get()
    }

    private fun Activity.choose(id: Int, name: String) = find<Spinner>(id).choose(name)

    private fun Activity.chosen(id: Int) = find<Spinner>(id).selectedItem

    @Test
    fun `text and model are there again`() {
        val before = start(MainActivity::class.java)
        before.get().choose(R.id.bundles, "pairs-two")
        worker.runAll()
        before.get().enter(R.id.first, "half a pair: \uD83D")
        val screen = comeBack(MainActivity::class.java, leave(before))
        worker.runAll()
        assertEquals("pairs-two", screen.chosen(R.id.bundles))
        assertEquals("half a pair: \uD83D", screen.shown(R.id.first))
    }

    @Test
    fun `both models that were compared are chosen again`() {
        val before = start(CompareActivity::class.java)
        before.get().choose(R.id.left, "tags-float32")
        before.get().choose(R.id.right, "pairs-float32")
        val screen = comeBack(CompareActivity::class.java, leave(before))
        worker.runAll()
        assertEquals("tags-float32", screen.chosen(R.id.left))
        assertEquals("pairs-float32", screen.chosen(R.id.right))
    }

    @Test
    fun `the question that was searched for is there again, and so is its model`() {
        val before = start(SearchActivity::class.java)
        before.get().enter(R.id.first, "who is it")
        val screen = comeBack(SearchActivity::class.java, leave(before))
        worker.runAll()
        assertEquals("vectors-float32", screen.chosen(R.id.bundles))
        assertEquals("who is it", screen.shown(R.id.first))
        screen.enter(R.id.first, long)
        val again = Robolectric.buildActivity(SearchActivity::class.java).setup()
        again.get().enter(R.id.first, long)
        assertEquals("", comeBack(SearchActivity::class.java, leave(again)).shown(R.id.first))
    }

    @Test
    fun `the model that was to be measured is chosen again, and what was entered`() {
        val before = start(MeasureActivity::class.java)
        before.get().choose(R.id.bundles, "spans-float32")
        before.get().enter(R.id.runs, "77")
        val screen = comeBack(MeasureActivity::class.java, leave(before))
        worker.runAll()
        assertEquals("spans-float32", screen.chosen(R.id.bundles))
        assertEquals("77", screen.shown(R.id.runs))
    }

    @Test
    fun `a screen with long texts can be left`() {
        for (screen in listOf(MainActivity::class.java, CompareActivity::class.java)) {
            val before = start(screen)
            for (id in listOf(R.id.first, R.id.second)) before.get().enter(id, long)
            val saved = leave(before)
            val parcel = Parcel.obtain()
            parcel.writeBundle(saved)
            // All screens of all apps share 1 MB, half of it for messages without an answer.
            assertTrue("${parcel.dataSize()}", parcel.dataSize() < 100_000)
            parcel.recycle()
            assertEquals("", comeBack(screen, saved).shown(R.id.first))
            worker.runAll()
        }
    }

    @Test
    fun `a screen with long texts can be turned and keeps them`() {
        for (screen in listOf(MainActivity::class.java, CompareActivity::class.java)) {
            val controller = start(screen)
            for (id in listOf(R.id.first, R.id.second)) controller.get().enter(id, long)
            controller.recreate()
            for (id in listOf(R.id.first, R.id.second)) {
                assertEquals(long, controller.get().shown(id))
            }
        }
    }

    @Test
    fun `a field takes 100 kB and no more`() {
        val screen = start(MainActivity::class.java).get()
        screen.enter(R.id.first, "x".repeat(100_001))
        assertEquals(100_000, screen.shown(R.id.first).length)
    }

    @Test
    fun `the result is saved although the app was ended while its place was chosen`() {
        val before = start(MeasureActivity::class.java)
        before.get().press(R.id.start)
        val result = application.screens.measure.state.result
        before.get().find<Button>(R.id.save).performClick()
        val screen = comeBack(MeasureActivity::class.java, leave(before))
        val place = Uri.parse("content://documents/benchmark.json")
        val written = ByteArrayOutputStream()
        shadowOf(application.contentResolver).registerOutputStream(place, written)
        assertNull(application.screens.measure.state.result) // it is still being read
        screen.deliver(place)
        worker.runAll()
        assertEquals(result, BenchmarkResult.read(String(written.toByteArray())))
        assertEquals("Saved.", screen.shown(R.id.saved))
        assertEquals(View.VISIBLE, screen.find<View>(R.id.share).visibility)
    }

    @Test
    fun `a result that is gone is not saved, and that is said`() {
        val screen = start(MeasureActivity::class.java).get()
        screen.deliver(Uri.parse("content://documents/benchmark.json"))
        worker.runAll()
        assertEquals("Not saved: there is no result", screen.shown(R.id.saved))
    }

    @Test
    fun `a benchmark that was ended in the middle is said to be`() {
        val before = start(MeasureActivity::class.java)
        before.get().find<Button>(R.id.start).performClick()
        val state = File(application.filesDir, "measured/benchmark.state.json")
        var last = ""
        models.during = {
            ShadowSystemClock.advanceBy(Duration.ofMillis(20))
            if (models.runs == 300) last = state.readText()
        }
        worker.runAll()
        val saved = leave(before)
        state.writeText(last) // as it was when the process ended
        File(application.filesDir, "measured/benchmark.json").delete()
        val screen = comeBack(MeasureActivity::class.java, saved)
        worker.runAll()
        assertTrue(screen.shown(R.id.state), "(2 of 6 done)" in screen.shown(R.id.state))
        assertEquals(View.GONE, screen.find<View>(R.id.save).visibility)
    }

    /** What the app that keeps documents answers. */
    private fun MeasureActivity.deliver(place: Uri) {
        ReflectionHelpers.callInstanceMethod<Unit>(
            this,
            "onActivityResult",
            ClassParameter.from(Int::class.java, 1),
            ClassParameter.from(Int::class.java, Activity.RESULT_OK),
            ClassParameter.from(Intent::class.java, Intent().setData(place)),
        )
    }
}
