package io.github.tfdistill.demo

import android.app.ActionBar
import android.app.Activity
import android.graphics.Insets
import android.os.Looper
import android.view.View
import android.view.View.MeasureSpec
import android.view.ViewGroup
import android.view.WindowInsets
import android.widget.EditText
import android.widget.ScrollView
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.annotation.GraphicsMode

/** What lies over the window: since Android 15 the app itself has to keep clear of it. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], qualifiers = "w360dp-h640dp-xhdpi")
@GraphicsMode(GraphicsMode.Mode.LEGACY) // which scrolls at once, without frames
class InsetsTest : ScreenTest() {
    private val over = Insets.of(30, 50, 40, 600) // cut-out, status, navigation bar, keyboard

    private fun <T : Activity> start(screen: Class<T>): T {
        begin(TwoPairs)
        return open(screen).get()
    }

    private fun cover(screen: Activity) {
        val decor = screen.window.decorView
        @Suppress("DEPRECATION") // the keyboard counts among them, as its typed one does not
        val insets = WindowInsets.Builder().setSystemWindowInsets(over).build()
        decor.dispatchApplyWindowInsets(insets)
        val (width, height) = decor.width to decor.height
        decor.measure(
            MeasureSpec.makeMeasureSpec(width, MeasureSpec.EXACTLY),
            MeasureSpec.makeMeasureSpec(height, MeasureSpec.EXACTLY),
        )
        decor.layout(0, 0, width, height)
        shadowOf(Looper.getMainLooper()).idle()
    }

    private fun View.place() = IntArray(2).also(::getLocationInWindow)

    @Test
    fun `the app is one for Android 15, or it would not be asked to`() {
        assertEquals(35, application.applicationInfo.targetSdkVersion)
    }

    @Test
    fun `every screen stands between the bars, the cut-out and the keyboard`() {
        for (type in
            listOf(
                MainActivity::class.java,
                CompareActivity::class.java,
                SearchActivity::class.java,
                MeasureActivity::class.java,
                DeviceActivity::class.java,
            )) {
            val screen = start(type)
            cover(screen)
            val decor = screen.window.decorView
            val frame = screen.find<ViewGroup>(android.R.id.content).getChildAt(0) as ViewGroup
            val scroll = frame.getChildAt(0) as ScrollView
            val (left, top) = scroll.place().asList()
            val bar = checkNotNull(screen.actionBar).height // with the room of the status bar
            assertEquals("$type", over.left, left)
            assertEquals("$type", bar, top)
            assertTrue("$type: $bar", bar > over.top)
            assertEquals(decor.width - over.right, left + scroll.width)
            assertEquals(decor.height - over.bottom, top + scroll.height)
        }
    }

    @Test
    fun `what is being typed is in sight above the keyboard`() {
        val screen = start(MeasureActivity::class.java)
        val field = screen.find<EditText>(R.id.runs)
        val free = screen.window.decorView.height - over.bottom
        assertTrue(field.place()[1] > free)
        field.requestFocus()
        cover(screen)
        assertTrue(field.place()[1] + field.height <= free)
    }

    @Test
    fun `every screen but the first leads back to it, which keeps its texts`() {
        for (type in
            listOf(
                CompareActivity::class.java,
                SearchActivity::class.java,
                MeasureActivity::class.java,
                DeviceActivity::class.java,
            )) {
            val screen = start(type)
            val shown = checkNotNull(screen.actionBar).displayOptions
            assertNotEquals(0, shown and ActionBar.DISPLAY_HOME_AS_UP)
            val parent = checkNotNull(screen.parentActivityIntent)
            assertEquals(MainActivity::class.java.name, parent.component?.className)
            val info = checkNotNull(parent.resolveActivityInfo(screen.packageManager, 0))
            // Of any other kind it would be ended and made anew.
            assertEquals(android.content.pm.ActivityInfo.LAUNCH_SINGLE_TOP, info.launchMode)
        }
    }
}
