package io.github.tfdistill.demo

import android.app.Activity
import java.time.Duration
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemClock

/** The screens in the classes of Android 8, which has no thermal status and tells no processor. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26])
class OldestAndroidTest : ScreenTest() {
    init {
        begin()
        models.during = { ShadowSystemClock.advanceBy(Duration.ofMillis(20)) }
    }

    private fun <T : Activity> start(screen: Class<T>): T = open(screen).get()

    @Test
    fun `a text is answered`() {
        val screen = start(MainActivity::class.java)
        screen.enter(R.id.first, Golden("pairs-float32").examples[0].text)
        screen.press(R.id.run)
        assertTrue("[CLS]" in screen.shown(R.id.tokens))
    }

    @Test
    fun `two models are compared`() {
        val screen = start(CompareActivity::class.java)
        screen.enter(R.id.first, "who knows this text")
        screen.press(R.id.run)
        assertTrue("those of a golden example" in screen.shown(R.id.answer))
    }

    @Test
    fun `it measures, and says nothing of heat`() {
        val screen = start(MeasureActivity::class.java)
        screen.press(R.id.start)
        assertEquals("Done: pairs-float32", screen.shown(R.id.state))
        val result = checkNotNull(application.screens.measure.state.result)
        assertEquals(6, result.measurements.size)
        for (row in result.measurements) assertNull(row.after?.thermalStatus)
        assertEquals("Android 8.0.0 (API 26)", result.device.os)
        assertNull(result.device.soc)
    }

    @Test
    fun `the device page says what is not known`() {
        val facts = start(DeviceActivity::class.java).shown(R.id.facts)
        assertTrue(facts, "Processor: not told to apps" in facts)
        assertTrue(facts, "Thermal status: not told to apps" in facts)
    }
}
