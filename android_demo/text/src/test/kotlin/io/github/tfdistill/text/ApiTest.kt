package io.github.tfdistill.text

import java.io.File
import org.jetbrains.kotlin.abi.tools.AbiToolsFactory
import org.jetbrains.kotlin.abi.tools.api.AbiFilters
import org.junit.Assert.assertEquals
import org.junit.Test

/** What apps that depend on the library are compiled against. */
class ApiTest {
    @Test
    fun `the public interface is that of the dumped file`() {
        val folder = File(Bundles::class.java.protectionDomain.codeSource.location.toURI())
        val classes = folder.walk().filter { it.extension == "class" }.sorted().toList()
        val dump = StringBuilder()
        val none = emptySet<String>()
        AbiToolsFactory().get().v2.printJvmDump(dump, classes, AbiFilters(none, none, none, none))
        val file = File("api/text.api") // Maven and Gradle both run tests in the module's folder
        if (System.getProperty("tfdistill.dump") != null) file.writeText("$dump")
        val remedy = "If apps may break, write it anew: scripts/android test -Dtfdistill.dump=yes"
        assertEquals(remedy, file.readText(), "$dump")
    }
}
