package io.github.tfdistill.benchmark

import io.github.tfdistill.text.Bundles
import io.github.tfdistill.text.Toys
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowBuild

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class GpuRecordTest {
    private val application = RuntimeEnvironment.getApplication()
    private val pairs = Bundles(Toys).open("pairs-float32")
    private val tags = Bundles(Toys).open("tags-float32")

    /** What the next process finds. */
    private fun record(version: String? = "2.1.6") = GpuRecord(application) { version }

    private fun allow() = record().run { allow(pairs, circumstances()) }

    @Test
    fun `nothing may run on a GPU until it passed, and then that model only`() {
        record().switch(pairs, true)
        assertFalse(record().isOn(pairs))
        allow()
        assertTrue(record().isOn(pairs) && record().hasPassed(pairs))
        assertFalse(record().isOn(tags) || record().hasPassed(tags))
        record().switch(pairs, false)
        assertFalse(record().isOn(pairs))
        assertTrue(record().hasPassed(pairs))
        record().forget(pairs)
        assertFalse(record().hasPassed(pairs))
    }

    @Test
    fun `another build of Android, LiteRT or app is compared again`() {
        allow()
        assertFalse(record("2.1.7").isOn(pairs))
        assertFalse(record(null).isOn(pairs))
        assertTrue(record().isOn(pairs))
        val packages = shadowOf(application.packageManager)
        val installed = packages.getInternalMutablePackageInfo(application.packageName)
        val version = installed.versionName
        installed.versionName = "9"
        assertFalse(record().isOn(pairs))
        installed.versionName = version
        installed.lastUpdateTime++
        assertFalse(record().isOn(pairs))
        installed.lastUpdateTime--
        assertTrue(record().isOn(pairs))
        ShadowBuild.setFingerprint("maker/phone/next")
        assertFalse(record().isOn(pairs))
    }

    @Test
    fun `a process that ends while it tries is known to the next one, until somebody tries again`() {
        allow()
        var next: GpuRecord? = null
        record().during(pairs) { next = record() } // the process ended here, and another began
        val restarted = checkNotNull(next)
        assertTrue(restarted.hasEnded(pairs))
        assertFalse(restarted.isOn(pairs) || restarted.hasPassed(pairs) || restarted.hasEnded(tags))
        assertTrue(record().hasEnded(pairs)) // and to the one after that
        record().during(pairs) {}
        assertFalse(record().hasEnded(pairs))
    }

    @Test
    fun `what ends in an answer or an exception leaves no mark`() {
        allow()
        assertEquals(5, record().during(pairs) { 5 })
        assertThrows(IllegalStateException::class.java) { record().during(pairs) { error("no") } }
        assertFalse(record().hasEnded(pairs))
        assertTrue(record().isOn(pairs))
    }
}
