package io.github.tfdistill.demo

import android.app.Activity
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.EditText
import android.widget.ScrollView
import android.widget.Spinner
import android.widget.Switch
import android.widget.TextView
import io.github.tfdistill.text.EditedToys
import io.github.tfdistill.text.FileSource
import java.io.File
import java.time.Duration
import kotlin.math.exp
import kotlin.random.Random
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import org.robolectric.annotation.GraphicsMode
import org.robolectric.shadows.ShadowSystemClock

/**
 * All screens, laid out and drawn as on a phone.
 *
 * With -Dtfdistill.results=FOLDER the pictures are left there; those of docs/pictures come from it.
 */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], qualifiers = "w360dp-h760dp-xhdpi")
@GraphicsMode(GraphicsMode.Mode.NATIVE)
class ScreensTest : ScreenTest() {
    private val random = Random(1)

    init {
        models.during = { ShadowSystemClock.advanceBy(Duration.ofNanos(nanoseconds())) }
    }

    /** Durations as phones have them: most of them close together, some far above. */
    private fun nanoseconds(): Long =
        (4e6 * (1 + 0.05 * random.nextDouble() + 0.4 * exp(-8 * random.nextDouble()))).toLong()

    private fun <T : Activity> start(screen: Class<T>, source: FileSource = TwoPairs): T {
        begin(source, version = "2.1.6")
        return open(screen).get()
    }

    private fun Activity.answer(text: String, second: String?) {
        enter(R.id.first, text)
        enter(R.id.second, second)
        press(R.id.run)
    }

    private fun answer() =
        start(MainActivity::class.java).apply {
            val golden = Golden("pairs-float32").examples.first { it.pair != null }
            answer(golden.text, golden.pair)
        }

    private fun question() =
        start(MainActivity::class.java).apply {
            find<Spinner>(R.id.bundles).setSelection(2)
            worker.runAll()
            val question = Golden("spans-float32").questions.first { it.answer.isNotEmpty() }
            answer(question.question, question.context)
        }

    private fun compare() =
        start(CompareActivity::class.java).apply {
            val golden = Golden("pairs-float32").examples.first { it.pair != null }
            answer(golden.text, golden.pair)
        }

    private fun search() =
        start(SearchActivity::class.java).apply {
            enter(R.id.first, Golden("vectors-float32").examples[11].text)
            press(R.id.run)
        }

    private fun measure() = start(MeasureActivity::class.java).apply { press(R.id.start) }

    private fun fault() =
        start(
            MainActivity::class.java,
            EditedToys("bundles/pairs-float32/model.json") {
                it.replace("\"format_version\": 1", "\"format_version\": 2")
            },
        )

    private fun gpu(): Activity {
        models.onGpu = { 1.5f * it }
        return answer().also {
            it.find<Switch>(R.id.gpu).performClick()
            worker.runAll()
        }
    }

    private val screens: Map<String, () -> Activity> =
        mapOf(
            "answer" to ::answer,
            "question" to ::question,
            "compare" to ::compare,
            "search" to ::search,
            "benchmark" to ::measure,
            "device" to { start(DeviceActivity::class.java) },
            "fault" to ::fault,
            "gpu" to ::gpu,
        )

    private fun views(view: View): List<View> {
        if (view.visibility != View.VISIBLE) return emptyList()
        val children = view as? ViewGroup ?: return listOf(view)
        return listOf(view) +
            (0 until children.childCount).flatMap { views(children.getChildAt(it)) }
    }

    private fun views(screen: Activity) = views(screen.find<View>(android.R.id.content))

    /** Whether a finger does something there, and more than selecting a text. */
    private fun isTouched(view: View) =
        view.isClickable && (view !is TextView || view is EditText || !view.isTextSelectable)

    /** Where the lowest text or picture ends, and a little more. */
    private fun end(screen: Activity): Int =
        views(screen)
            .filter { it !is ViewGroup }
            .maxOf { view -> IntArray(2).also(view::getLocationInWindow)[1] + view.height } + 32

    private fun picture(screen: Activity, name: String): Bitmap {
        val view = screen.window.decorView
        val bitmap = Bitmap.createBitmap(view.width, view.height, Bitmap.Config.ARGB_8888)
        view.draw(Canvas(bitmap))
        val whole = Bitmap.createBitmap(bitmap, 0, 0, view.width, minOf(view.height, end(screen)))
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { folder ->
                File(folder, "android-$name.png").outputStream().use {
                    whole.compress(Bitmap.CompressFormat.PNG, 100, it)
                }
            }
        return bitmap
    }

    private fun brightness(bitmap: Bitmap): Float =
        Color.luminance(bitmap.getPixel(bitmap.width - 4, bitmap.height - 4))

    @Test
    fun `whatever can be touched has a name and is 48 dp high`() {
        for ((name, open) in screens) {
            val all = views(open())
            val labelled = all.map { it.labelFor }
            val touched = all.filter(::isTouched)
            if (name != "device") assertTrue(name, touched.isNotEmpty())
            for (view in touched) {
                val named =
                    view.id in labelled ||
                        !view.contentDescription.isNullOrEmpty() ||
                        (view as? EditText)?.hint != null ||
                        (view is Button && view.text.isNotEmpty())
                assertTrue("$name: $view", named)
                assertTrue("$name: $view", view.height >= 96) // 2 pixels a dp
            }
        }
    }

    /** Every text is whole and every view stands between the left and the right edge. */
    private fun assertNothingIsCut(picture: String? = null) {
        for ((name, open) in screens) {
            val screen = open()
            picture?.let { picture(screen, "$name-$it") }
            val width = screen.window.decorView.width
            val all = views(screen)
            for (view in all) {
                val left = IntArray(2).also(view::getLocationInWindow)[0]
                assertTrue("$name: $view", left >= 0 && left + view.width <= width)
            }
            val texts = all.filterIsInstance<TextView>().filter { it !is EditText }
            assertTrue(texts.isNotEmpty())
            for (view in texts.filter { it.text.isNotEmpty() }) {
                val layout = checkNotNull(view.layout) { "$name: $view" }
                val room = view.height - view.compoundPaddingTop - view.compoundPaddingBottom
                assertTrue("$name: ${view.text}", layout.height <= room)
                assertEquals(view.text.length, layout.getLineEnd(layout.lineCount - 1))
            }
            val scroll = all.filterIsInstance<ScrollView>().single()
            val bar = checkNotNull(screen.actionBar).height
            assertTrue(name, IntArray(2).also(scroll::getLocationInWindow)[1] >= bar && bar > 0)
            val lowest = scroll.getChildAt(0)
            scroll.scrollTo(0, lowest.height)
            assertEquals(name, lowest.height, scroll.scrollY + minOf(scroll.height, lowest.height))
        }
    }

    @Test
    @Config(fontScale = 2f)
    fun `at the largest font no text is cut off`() = assertNothingIsCut()

    @Test
    @Config(qualifiers = "w320dp-h480dp-mdpi", fontScale = 2f)
    fun `on the smallest phone nothing is cut off, at the largest font either`() =
        assertNothingIsCut()

    @Test
    @Config(qualifiers = "ar-ldrtl-w320dp-h480dp-xhdpi")
    fun `from right to left nothing is cut off`() {
        assertNothingIsCut()
        val label = views(measure()).first { it is TextView && it !is EditText }
        assertEquals(View.LAYOUT_DIRECTION_RTL, label.layoutDirection)
    }

    @Test
    @Config(qualifiers = "w760dp-h360dp-land-xhdpi")
    fun `turned nothing is cut off, and all can be reached by scrolling`() =
        assertNothingIsCut(picture = "land")

    /** Contrast of two opaque colours by WCAG 2: 1 to 21. */
    private fun contrast(one: Int, other: Int): Float {
        val (dark, light) = listOf(one, other).map(Color::luminance).sorted()
        return (light + 0.05f) / (dark + 0.05f)
    }

    private fun over(colour: Int, ground: Int): Int {
        val part = Color.alpha(colour) / 255f
        fun mix(channel: (Int) -> Int) =
            (channel(colour) * part + channel(ground) * (1 - part)).toInt()
        return Color.rgb(mix(Color::red), mix(Color::green), mix(Color::blue))
    }

    private fun Activity.colourOf(attribute: Int): Int {
        val attributes = obtainStyledAttributes(intArrayOf(attribute))
        return attributes.getColor(0, 0).also { attributes.recycle() }
    }

    private fun assertLegible(name: String, screen: Activity) {
        val ground = screen.colourOf(android.R.attr.colorBackground)
        val button = screen.colourOf(android.R.attr.colorButtonNormal)
        val all = views(screen).filterIsInstance<TextView>().filter { it.isEnabled }
        for (view in all) {
            val below = if (view is Button) over(button, ground) else ground
            val hint = view.currentHintTextColor.takeIf { view.hint != null }
            for (colour in listOfNotNull(view.currentTextColor, hint)) {
                val ratio = contrast(over(colour, below), below)
                assertTrue("$name, ${view.text}${view.hint}: $ratio", ratio >= 4.5f)
            }
        }
        val bar = screen.getColor(R.color.primary)
        val title = views(screen.window.decorView).filterIsInstance<TextView>() - all.toSet()
        for (view in title.filter { it.text == screen.title }) {
            assertTrue(name, contrast(view.currentTextColor, bar) >= 4.5f)
        }
        assertTrue(name, contrast(screen.getColor(R.color.warning), ground) >= 4.5f)
        // What is no text: WCAG asks for 3.
        assertTrue(name, contrast(screen.getColor(R.color.bars), ground) >= 3f)
        assertTrue(name, contrast(screen.getColor(R.color.accent), ground) >= 3f)
    }

    @Test
    @Config(qualifiers = "w360dp-h1240dp-xhdpi")
    fun `by day screens are bright and all texts can be read`() {
        for ((name, open) in screens) {
            val screen = open()
            assertLegible(name, screen)
            assertTrue(name, brightness(picture(screen, name)) > 0.8f)
        }
    }

    @Test
    @Config(qualifiers = "zh-rCN-w360dp-h1240dp-night-xhdpi")
    fun `by night screens are dark and all texts can be read`() {
        for ((name, open) in screens) {
            val screen = open()
            assertLegible(name, screen)
            assertTrue(name, brightness(picture(screen, "$name-night")) < 0.1f)
        }
    }

    @Test
    fun `the distribution is drawn as high as its bars`() {
        val view = views(measure()).filterIsInstance<DistributionView>().first()
        val bitmap = Bitmap.createBitmap(view.width, view.height, Bitmap.Config.ARGB_8888)
        view.draw(Canvas(bitmap))
        val colour = application.getColor(R.color.bars)
        val heights = checkNotNull(view.distribution).heights
        val bar = view.width / heights.size.toFloat()
        val drawn =
            heights.indices.map { index ->
                // Left and right in the bar: a mark covers at most one of them.
                listOf(0.2f, 0.7f).maxOf { part ->
                    val x = ((index + part) * bar).toInt()
                    (0 until view.height).count { bitmap.getPixel(x, it) == colour }
                }
            }
        val highest = drawn.max().toDouble()
        assertTrue(highest > 100)
        for (index in heights.indices) assertEquals(heights[index], drawn[index] / highest, 0.02)
    }
}
