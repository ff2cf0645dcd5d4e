package io.github.tfdistill.text

import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonPrimitive
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

/** Odd running texts, read and answered as `tests/test_android/running_texts.py` says. */
class RunningTextTest {
    private val lines = Resources.lines("running.jsonl")
    private val toy = Resources.bundles.open("tags-float32")
    private val bio = listOf("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    private val bioes = listOf("B-X", "I-X", "E-X", "S-X", "O", "S-Y")

    private fun predictor(
        labels: List<String>,
        tokenizer: Tokenizer = toy.tokenizer,
        logit: (Int, Int, Int) -> Float = { id, row, tag ->
            (id * 7 + row * 13 + tag * 29) % 23 / 4f
        },
    ): Predictor {
        val promises = listOf(Promise(0.05, 300, threshold = 0.3))
        val recall = Recall(threshold = 0.6)
        val card =
            toy.manifest.copy(
                task = toy.task.copy(labels = labels),
                confidence =
                    Confidence(
                        1.7,
                        200,
                        entityPromises = promises,
                        recall = recall,
                        sha256 = "0".repeat(64),
                    ),
            )
        return Predictor(
            Bundle(toy.name, toy.entry, card, tokenizer),
            object : ModelRunner {
                override val signatures = toy.signatures

                override fun run(signature: String, inputs: Map<String, IntArray>) =
                    mapOf(
                        "logits" to
                            inputs
                                .getValue("input_ids")
                                .flatMapIndexed { row, id ->
                                    labels.indices.map { logit(id, row, it) }
                                }
                                .toFloatArray()
                    )

                override fun close() = Unit
            },
        )
    }

    @Test
    fun `odd texts have the words of Python`() {
        val wrong =
            lines.filter {
                val words = WordPlaces.of(it.getValue("text").string())
                words.starts.asList() != it.getValue("starts").ints() ||
                    words.ends.asList() != it.getValue("ends").ints()
            }
        assertEquals(emptyList<JsonObject>(), wrong.take(3))
        assertEquals(2000, lines.size)
    }

    @Test
    fun `odd texts have the tags, entities, probabilities and masks of Python`() {
        val content = Resources.text("unigram.json").toByteArray()
        val unigram = UnigramFile.read(content, checkNotNull(toy.manifest.tokenizer))
        val predictors =
            listOf(toy.tokenizer, unigram).flatMap {
                listOf(predictor(bio, it), predictor(bioes, it))
            }
        var (windows, byRule) = 0 to 0
        val sure = HashMap<Boolean?, Int>()
        var hidden = 0
        fun check(text: String, row: JsonArray, entity: Entity) {
            assertEquals(row[0].string(), entity.label)
            val places = row.drop(1).take(2).map { it.jsonPrimitive.int }
            assertEquals(text, places, listOf(entity.start, entity.end))
            assertEquals(text, row[3].jsonPrimitive.double, entity.probability, 1e-6)
            assertEquals(text.substring(entity.start, entity.end), entity.text)
        }
        for ((number, line) in lines.withIndex()) {
            val text = line.getValue("text").string()
            val predictor = predictors[number % 4]
            predictor.patterns = number % 3 == 0
            val prediction = predictor.predict(text)
            val expected = line.getValue("entities").jsonArray.map { it.jsonArray }
            val tags = prediction.outcome as Outcome.Tags
            val entities = checkNotNull(tags.entities)
            assertEquals(text, expected.size, entities.size)
            val isSure = line.getValue("sure").string().map { it == '1' }
            assertEquals(text, isSure, entities.map { it.sure })
            for ((entity, row) in entities.zip(expected)) {
                check(text, row, entity)
                if (entity.label in listOf("EMAIL", "IBAN", "CARD")) byRule++
                else sure.merge(entity.sure, 1, Int::plus)
            }
            val probability = line.getValue("probability").jsonPrimitive.double
            // Eight digits, of numbers as small as many words make them.
            assertEquals(text, 1.0, checkNotNull(prediction.probability) / probability, 1e-6)
            assertNull(prediction.sure)
            if (prediction.inferences > 1) windows++
            val masked = line["masked"] ?: continue
            assertEquals(line.getValue("tags").string(), tags.tags.joinToString(" "))
            val runs = line.getValue("hidden").jsonArray.map { it.jsonArray }
            assertEquals(text, runs.size, tags.hidden.size)
            runs.zip(tags.hidden) { row, run -> check(text, row, run) }
            hidden += runs.size
            assertEquals(masked.string(), predictor.mask(text).text)
            assertEquals(text, predictor.mask(text).run { restore(this.text) })
        }
        assertTrue("$windows $byRule", windows > 500 && byRule > 400)
        assertTrue("$hidden $sure", hidden > 100 && sure.size == 2 && sure.values.min() > 500)
    }

    @Test
    fun `halves of surrogates are in no word, and whole pairs are one character`() {
        val words = WordPlaces.of("a\ud83d\ud83d\ude00\ude00\u0301b")
        assertArrayEquals(intArrayOf(0, 2, 5, 6), words.starts)
        assertArrayEquals(intArrayOf(1, 4, 6, 7), words.ends)
    }

    @Test
    fun `an entity is found wherever it stands in a long text, and masks leave nothing behind`() {
        val mary = checkNotNull(toy.vocabulary.id("mary"))
        val john = checkNotNull(toy.vocabulary.id("john"))
        val predictor =
            predictor(bio) { id, _, tag ->
                if (tag == (if (id == mary) 1 else if (id == john) 2 else 0)) 9f else 0f
            }
        for (place in 0..70) {
            val before = "the film. ".repeat(place)
            val text = before + "(Mary\u0301 John\ufe0f)" + " is good".repeat(70 - place)
            val entity = checkNotNull(predictor.predict(text).entities).single()
            assertEquals(before.length + 1, entity.start)
            assertEquals("Mary\u0301 John\ufe0f", entity.text)
            val masked = predictor.mask("[PER_1] $text Mary\u0301 John\ufe0f")
            assertEquals(mapOf("[PER_2]" to entity.text), masked.table)
            assertEquals(
                "[PER_1] " + text.replace(entity.text, "[PER_2]") + " [PER_2]",
                masked.text,
            )
        }
    }

    @Test
    fun `a text without words has no entities, and tags that name none have no mask`() {
        val prediction = predictor(bio).predict(" \u00a0\r\n")
        assertEquals(emptyList<Entity>(), prediction.entities)
        assertEquals(1.0, prediction.probability)
        val plain = predictor(listOf("NOUN", "VERB"))
        assertNull(plain.predict("good films").entities)
        assertThrows(IllegalArgumentException::class.java) { plain.mask("good films") }
    }

    @Test
    fun `rules take time in proportion to the text`() {
        for (unit in listOf("@", "a.b@", "4111 ", "DE89 ", "a@" + "b".repeat(70))) {
            fun seconds(size: Int): Double {
                val text = unit.repeat(size / unit.length)
                val begin = System.nanoTime()
                assertTrue(Patterns.find(text).size < size / 10)
                return (System.nanoTime() - begin) / 1e9
            }
            seconds(10_000)
            // In proportion, it would be ten times; to the square, a hundred times.
            assertTrue(unit, seconds(100_000) < 40 * seconds(10_000) + 1)
        }
    }
}
