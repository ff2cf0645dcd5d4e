package io.github.tfdistill.benchmark

import kotlin.math.ceil
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray

/**
 * What to measure and how often; `tfdistill/benchmark/settings.py` says what each value means.
 *
 * @property lengths of the signatures to measure; empty for all
 */
data class BenchmarkRequest(
    val bundle: String,
    val lengths: List<Int> = emptyList(),
    val threads: List<Int> = listOf(1),
    val accelerator: Accelerator = Accelerator.CPU,
    val warmup: Int = 10,
    val runs: Int = 100,
    val minSeconds: Double = 1.0,
    val maxRuns: Int = 2000,
    val repetitions: Int = 3,
    val rounds: Int = 10,
    val coolDownSeconds: Double = 0.0,
    val seed: Int = 0,
) {
    /** How many samples a block has, given about how long one takes. */
    fun blockRuns(estimateMs: Double): Int {
        val wanted = maxOf(runs.toDouble(), minSeconds * 1000 / maxOf(estimateMs, 1e-6))
        return ceil(minOf(wanted, maxOf(maxRuns, runs).toDouble()) / rounds).toInt()
    }

    /** What benchmark.json says was asked for. */
    fun toSettings(measuredLengths: List<Int>): JsonObject = buildJsonObject {
        putJsonArray("threads") { threads.forEach { add(JsonPrimitive(it)) } }
        putJsonArray("lengths") { measuredLengths.forEach { add(JsonPrimitive(it)) } }
        putJsonArray("delegates") { add(JsonPrimitive(accelerator.delegate)) }
        put("warmup", warmup)
        put("runs", runs)
        put("min_seconds", minSeconds)
        put("max_runs", maxRuns)
        put("repetitions", repetitions)
        put("rounds", rounds)
        put("cool_down_seconds", coolDownSeconds)
        put("seed", seed)
    }

    companion object {
        private val BUNDLE = Regex("[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
        private val NUMBERS = Regex("[0-9]{1,5}(,[0-9]{1,5}){0,15}")
        private const val MOST_SECONDS = 3600.0

        /** What can be asked for. */
        val KEYS =
            setOf("bundle", "lengths", "threads", "accelerator", "warmup", "runs", "min_seconds") +
                setOf("max_runs", "repetitions", "rounds", "cool_down_seconds", "seed")

        /**
         * Reads what the screen or a device farm's test was given.
         *
         * @param settings texts by name, of [KEYS]; one that is null or missing has its default
         * @throws IllegalArgumentException which says all that is out of bounds
         */
        fun parse(settings: Map<String, String?>): BenchmarkRequest =
            Reader(settings).run {
                val request =
                    BenchmarkRequest(
                        bundle = text("bundle", null, BUNDLE),
                        lengths = numbers("lengths", emptyList(), 4096),
                        threads = numbers("threads", listOf(1), 64),
                        accelerator = accelerator(),
                        warmup = number("warmup", 10, 0..10_000),
                        runs = number("runs", 100, 1..100_000),
                        minSeconds = seconds("min_seconds", 1.0),
                        maxRuns = number("max_runs", 2000, 1..100_000),
                        repetitions = number("repetitions", 3, 1..100),
                        rounds = number("rounds", 10, 1..1000),
                        coolDownSeconds = seconds("cool_down_seconds", 0.0),
                        seed = number("seed", 0, 0..Int.MAX_VALUE),
                    )
                require(faults.isEmpty()) { faults.joinToString("\n") }
                request
            }

        private class Reader(private val settings: Map<String, String?>) {
            val faults = ArrayList<String>()

            fun fault(what: String, expected: String) {
                faults.add(explain(what, expected, settings[what].toString().take(200)))
            }

            fun text(name: String, default: String?, pattern: Regex): String {
                val value = settings[name] ?: default
                if (value != null && pattern.matches(value)) return value
                fault(name, "$pattern")
                return ""
            }

            fun accelerator(): Accelerator {
                val name = text("accelerator", "cpu", Regex("cpu|gpu"))
                return if (name == "gpu") Accelerator.GPU else Accelerator.CPU
            }

            fun numbers(name: String, default: List<Int>, most: Int): List<Int> {
                if (settings[name] == null) return default
                val values = text(name, null, NUMBERS).split(',').mapNotNull { it.toIntOrNull() }
                if (values.any { it !in 1..most } || values.distinct().size < values.size) {
                    fault(name, "different numbers from 1 to $most")
                }
                return values
            }

            fun number(name: String, default: Int, range: IntRange): Int {
                val value = (settings[name] ?: return default).toIntOrNull()
                if (value != null && value in range) return value
                fault(name, "$range")
                return default
            }

            fun seconds(name: String, default: Double): Double {
                val value = (settings[name] ?: return default).toDoubleOrNull()
                if (value != null && value in 0.0..MOST_SECONDS) return value
                fault(name, "0 to $MOST_SECONDS seconds")
                return default
            }
        }
    }
}
