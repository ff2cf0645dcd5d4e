package io.github.tfdistill.benchmark

import android.os.PowerManager
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowSystemProperties

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class AndroidProbeTest {
    private val application = RuntimeEnvironment.getApplication()
    private val power = shadowOf(application.getSystemService(PowerManager::class.java))

    @Test
    fun `each change of the heat is told until the probe is closed`() {
        val told = ArrayList<Int>()
        val probe = AndroidProbe(application) { told += it }
        val changes = listOf(3, 1, 4, 0)
        for (status in changes) power.setCurrentThermalStatus(status)
        assertEquals(
            changes,
            told.filterIndexed { at, status -> at == 0 || told[at - 1] != status },
        )
        probe.close()
        val before = told.size
        power.setCurrentThermalStatus(2)
        assertEquals(before, told.size)
    }

    @Test
    fun `the worst status since the last question is said once`() {
        AndroidProbe(application).use { probe ->
            for (status in listOf(2, 5, 1)) power.setCurrentThermalStatus(status)
            assertEquals(listOf(5, 1), List(2) { probe.conditions().thermalStatus })
        }
    }

    @Test
    @Config(sdk = [26])
    fun `an Android that tells no heat is asked for none`() {
        AndroidProbe(application) { error("never told") }
            .use { probe -> assertNull(probe.conditions().thermalStatus) }
    }

    @Test
    fun `memory is the kernel's, in bytes`() {
        AndroidProbe(application).use { probe ->
            val (now, most) = listOf(probe.residentBytes(), probe.peakResidentBytes())
            assertTrue("$now $most", checkNotNull(now) in 10_000_000..checkNotNull(most))
        }
    }

    @Test
    fun `an emulator is not a phone`() {
        fun kind(vararg properties: Pair<String, String>) =
            DeviceInfo.kind { properties.toMap()[it].orEmpty() }
        assertEquals("phone", kind("ro.hardware" to "tensor", "ro.kernel.qemu" to "0"))
        assertEquals("phone", kind("ro.product.name" to "shiba"))
        assertEquals("emulator", kind("ro.hardware" to "ranchu"))
        assertEquals("emulator", kind("ro.boot.qemu" to "1"))
        assertEquals("emulator", kind("ro.build.fingerprint" to "generic/sdk:15"))
        assertEquals("emulator", kind("ro.product.name" to "sdk_gphone64_x86_64"))
    }

    @Test
    fun `the properties of the system are read`() {
        assertEquals("phone", DeviceInfo.kind())
        ShadowSystemProperties.override("ro.boot.hardware", "cutf_cvm")
        assertEquals("emulator", DeviceInfo.kind())
    }
}
