package io.github.tfdistill.demo

import android.content.Context
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

/**
 * What Android's own services print for dumpsys: the Python side reads it with its parsers.
 *
 * Their classes are no part of the SDK that Gradle compiles against, so they are named by text.
 */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class FrameworkDumpTest {
    private val application = RuntimeEnvironment.getApplication()

    private fun printed(print: (PrintWriter) -> Unit): String =
        StringWriter().also { text -> PrintWriter(text).use(print) }.toString()

    private fun construct(name: String, vararg arguments: ClassParameter<*>): Any =
        ReflectionHelpers.callConstructor(Class.forName(name), *arguments)

    private fun dump(service: Any, writer: PrintWriter) {
        ReflectionHelpers.callInstanceMethod<Unit>(
            service,
            "dump",
            ClassParameter.from(String::class.java, "    "),
            ClassParameter.from(PrintWriter::class.java, writer),
        )
    }

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
        val service =
            construct(
                "com.android.server.power.ThermalManagerService",
                ClassParameter.from(Context::class.java, application),
            )
        val skin =
            construct(
                "android.os.Temperature",
                ClassParameter.from(Float::class.javaPrimitiveType, 41.5f),
                ClassParameter.from(Int::class.javaPrimitiveType, 3), // TYPE_SKIN
                ClassParameter.from(String::class.java, "SKIN"),
                ClassParameter.from(Int::class.javaPrimitiveType, 2),
            )
        ReflectionHelpers.getField<MutableMap<String, Any>>(service, "mTemperatureMap")["SKIN"] =
            skin
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
        val name = "com.android.server.policy.keyguard.Keyguard"
        val keyguard =
            construct(
                "${name}ServiceDelegate",
                ClassParameter.from(Context::class.java, application),
                ClassParameter.from(Class.forName("${name}StateMonitor\$StateCallback"), null),
            )
        val state = ReflectionHelpers.getField<Any>(keyguard, "mKeyguardState")
        for (showing in listOf(true, false)) {
            ReflectionHelpers.setField(state, "showing", showing)
            write("keyguard-$showing", printed { dump(keyguard, it) })
        }
    }
}
