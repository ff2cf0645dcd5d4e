package io.github.tfdistill.demo

import android.os.Temperature
import com.android.server.policy.keyguard.KeyguardServiceDelegate
import com.android.server.power.ThermalManagerService
import java.io.File
import java.io.FileDescriptor
import java.io.PrintWriter
import java.io.StringWriter
import java.util.concurrent.atomic.AtomicBoolean
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.util.ReflectionHelpers
import org.robolectric.util.ReflectionHelpers.ClassParameter

/** What Android's own services print for dumpsys: the Python side reads it with its parsers. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class FrameworkDumpTest {
    private val application = RuntimeEnvironment.getApplication()

    private fun printed(print: (PrintWriter) -> Unit): String =
        StringWriter().also { text -> PrintWriter(text).use(print) }.toString()

    private fun write(name: String, text: String) {
        assertTrue(text, text.isNotEmpty())
        System.getProperty("tfdistill.results")
            .orEmpty()
            .takeIf { it.isNotEmpty() }
            ?.let { File(it, "$name.txt").writeText(text) }
    }

    @Test
    fun `the thermal service before its HAL is ready`() {
        shadowOf(application).grantPermissions(android.Manifest.permission.DUMP)
        val service = ThermalManagerService(application)
        ReflectionHelpers.getField<MutableMap<String, Temperature>>(service, "mTemperatureMap")[
                "SKIN"] = Temperature(41.5f, Temperature.TYPE_SKIN, "SKIN", 2)
        ReflectionHelpers.setField(service, "mStatus", 2)
        fun dump() = printed {
            ReflectionHelpers.callInstanceMethod<Unit>(
                service,
                "dumpInternal",
                ClassParameter.from(FileDescriptor::class.java, FileDescriptor()),
                ClassParameter.from(PrintWriter::class.java, it),
                ClassParameter.from(Array<String>::class.java, arrayOf<String>()),
            )
        }
        val ready = ReflectionHelpers.getField<AtomicBoolean>(service, "mHalReady")
        assertTrue(!ready.get())
        write("thermal-no-hal", dump())
        ReflectionHelpers.setField(service, "mIsStatusOverride", true)
        write("thermal-overridden", dump())
    }

    @Test
    fun `the keyguard`() {
        val keyguard = KeyguardServiceDelegate(application, null)
        val state = ReflectionHelpers.getField<Any>(keyguard, "mKeyguardState")
        for (showing in listOf(true, false)) {
            ReflectionHelpers.setField(state, "showing", showing)
            write("keyguard-$showing", printed { keyguard.dump("    ", it) })
        }
    }
}
