package io.github.tfdistill.demo

import android.app.Activity
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.EditText
import android.widget.Spinner
import android.widget.Switch
import android.widget.TextView
import io.github.tfdistill.demo.core.FileSource
import java.io.File
import java.time.Duration
import kotlin.math.exp
import kotlin.random.Random
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
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
class ScreensTest {
    private val worker = Later()
    private val models = FakeModels()
    private val application = RuntimeEnvironment.getApplication() as DemoApplication
    private val random = Random(1)

    init {
        models.during = { ShadowSystemClock.advanceBy(Duration.ofNanos(nanoseconds())) }
    }

    /** Durations as phones have them: most of them close together, some far above. */
    private fun nanoseconds(): Long =
        (4e6 * (1 + 0.05 * random.nextDouble() + 0.4 * exp(-8 * random.nextDouble()))).toLong()

    private fun <T : Activity> start(screen: Class<T>, source: FileSource = TwoPairs): T {
        application.services = Services(source, models, worker, runtimeVersion = { "2.1.6" })
        return Robolectric.buildActivity(screen).setup().get().also { worker.runAll() }
    }

    private fun Activity.enter(text: String, second: String?) {
        find<EditText>(R.id.first).setText(text)
        find<EditText>(R.id.second).setText(second)
        find<Button>(R.id.run).performClick()
        worker.runAll()
    }

    private fun answer() =
        start(MainActivity::class.java).apply {
            val golden = Golden("pairs-float32").examples.first { it.pair != null }
            enter(golden.text, golden.pair)
        }

    private fun question() =
        start(MainActivity::class.java).apply {
            find<Spinner>(R.id.bundles).setSelection(2)
            worker.runAll()
            val asked = Golden("spans-float32").questions.first { it.answer.isNotEmpty() }
            enter(asked.question, asked.context)
        }

    private fun compare() =
        start(CompareActivity::class.java).apply {
            val golden = Golden("pairs-float32").examples.first { it.pair != null }
            enter(golden.text, golden.pair)
        }

    private fun measure() =
        start(MeasureActivity::class.java).apply {
            find<Button>(R.id.start).performClick()
            worker.runAll()
        }

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

    @Test
    @Config(fontScale = 2f)
    fun `at the largest font no text is cut off`() {
        for ((name, open) in screens) {
            val texts = views(open()).filterIsInstance<TextView>().filter { it !is EditText }
            assertTrue(texts.isNotEmpty())
            for (view in texts.filter { it.text.isNotEmpty() }) {
                val layout = checkNotNull(view.layout) { "$name: $view" }
                val room = view.height - view.compoundPaddingTop - view.compoundPaddingBottom
                assertTrue("$name: ${view.text}", layout.height <= room)
                assertEquals(view.text.length, layout.getLineEnd(layout.lineCount - 1))
            }
        }
    }

    @Test
    @Config(qualifiers = "w360dp-h1240dp-xhdpi")
    fun `screens are bright by day`() {
        for ((name, open) in screens) {
            assertTrue(name, brightness(picture(open(), name)) > 0.8f)
        }
    }

    @Test
    @Config(qualifiers = "zh-rCN-w360dp-h1240dp-night-xhdpi")
    fun `screens are dark by night`() {
        for ((name, open) in screens) {
            assertTrue(name, brightness(picture(open(), "$name-night")) < 0.1f)
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
