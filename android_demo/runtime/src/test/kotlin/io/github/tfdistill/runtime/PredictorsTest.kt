package io.github.tfdistill.runtime

import android.content.res.AssetManager
import io.github.tfdistill.text.BundleException
import io.github.tfdistill.text.BundleFault
import io.github.tfdistill.text.Predictor
import java.io.FileNotFoundException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** As far as a computer comes: TensorFlow Lite's native library is for Android alone. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26, 35])
class PredictorsTest {
    private val assets: AssetManager = RuntimeEnvironment.getApplication().assets

    @Test
    fun `a bundle that is not there is said to be, before a model is opened`() {
        val error = assertThrows(BundleException::class.java) { Predictor.open(assets, "pairs") }
        assertEquals(BundleFault.MISSING, error.fault)
        assertTrue(error.message, "tfdistill export --android" in error.message.orEmpty())
        assertThrows(FileNotFoundException::class.java) { AssetSource(assets).open("none") }
        assertThrows(FileNotFoundException::class.java) { AssetSource(assets).map("none") }
    }

    @Test
    fun `the runner names its runtime, so that its answers are compared`() {
        val runtime = InterpreterRunner::class.java.getMethod("getRuntime")
        assertEquals(InterpreterRunner::class.java, runtime.declaringClass)
    }
}
