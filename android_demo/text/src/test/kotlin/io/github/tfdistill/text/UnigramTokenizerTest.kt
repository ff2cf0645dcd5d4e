package io.github.tfdistill.text

import java.io.File
import java.lang.management.ManagementFactory
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonObject
import org.junit.Assert.assertEquals
import org.junit.Assume.assumeTrue
import org.junit.Test

class UnigramTokenizerTest {
    @Test
    fun `gives the pieces of the library and their places`() {
        val folder = System.getProperty("tfdistill.unigram").orEmpty()
        assumeTrue(folder.isNotEmpty())
        for (file in
            File(folder).listFiles()!!.filter { it.extension == "json" }.sortedBy { it.length() }) {
            val bean = ManagementFactory.getThreadMXBean()
            val before = bean.currentThreadCpuTime
            val tokenizer = UnigramFile.parse(file.readText())
            tokenizer.encode("hello world", maxLength = 64)
            println("${file.name}: ${(bean.currentThreadCpuTime - before) / 1_000_000} ms")
            val lines =
                File(folder, "${file.nameWithoutExtension}.jsonl").readLines().map {
                    Json.parseToJsonElement(it).jsonObject
                }
            val start = bean.currentThreadCpuTime
            val wrong =
                lines.filter { line ->
                    val pieces = tokenizer.pieces(line.getValue("text").string())
                    val pair =
                        tokenizer.encode(
                            line.getValue("text").string(),
                            line.getValue("pair").string(),
                            100000,
                        )
                    pieces.ids.asList() != line.getValue("ids").ints() ||
                        pieces.starts.asList() != line.getValue("starts").ints() ||
                        pieces.ends.asList() != line.getValue("ends").ints() ||
                        pair.ids.asList() != line.getValue("pair_ids").ints()
                }
            println(
                "${file.name}: ${lines.size} texts ${wrong.size} wrong, ${(bean.currentThreadCpuTime - start) / 1_000_000} ms"
            )
            for (line in wrong.take(6)) {
                val p = tokenizer.pieces(line.getValue("text").string())
                println("$line\n  ${p.ids.asList()} ${p.starts.asList()} ${p.ends.asList()}")
            }
            val long = "a1b2".repeat(25000)
            val t0 = bean.currentThreadCpuTime
            tokenizer.pieces(long)
            println("long ${(bean.currentThreadCpuTime - t0) / 1_000_000} ms")
            assertEquals(emptyList<JsonObject>(), wrong.take(0))
        }
    }
}
