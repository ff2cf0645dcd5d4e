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
 * @property runId name of the result's file
 * @property lengths of the signatures to measure; empty for all
 */
data class BenchmarkRequest(
    val runId: String,
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
    val sustainedSeconds: Double = 0.0,
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
        put("sustained_seconds", sustainedSeconds)
        put("seed", seed)
    }

    companion object {
        private val RUN_ID = Regex("[A-Za-z0-9_-]{1,64}")
        private val BUNDLE = Regex("[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
        private val NUMBERS = Regex("[0-9]{1,5}(,[0-9]{1,5}){0,15}")
        private const val MOST_SECONDS = 3600.0

        /** The keys of an intent whose values are floats, and those whose values are integers. */
        val SECONDS = setOf("min_seconds", "cool_down_seconds", "sustained_seconds")
        val COUNTS = setOf("warmup", "runs", "max_runs", "repetitions", "rounds", "seed")

        /** The only keys that an intent may bring. */
        val KEYS = setOf("run_id", "bundle", "lengths", "threads", "accelerator") + COUNTS + SECONDS

        /** The run id alone, where it can be a file's name: what a refusal is reported under. */
        fun runId(extras: Map<String, Any?>): String? =
            (extras["run_id"] as? String)?.takeIf(RUN_ID::matches)

        /**
         * Reads what an intent brought and refuses everything that is out of bounds.
         *
         * @param extras by name, as Android gives them: String, Int, Float
         * @throws IllegalArgumentException which says all that is wrong
         */
        fun parse(extras: Map<String, Any?>): BenchmarkRequest =
            Reader(extras).run {
                val unknown = extras.keys - KEYS
                if (unknown.isNotEmpty()) fault("extras", "some of $KEYS", unknown)
                val request =
                    BenchmarkRequest(
                        runId = text("run_id", null, RUN_ID),
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
                        sustainedSeconds = seconds("sustained_seconds", 0.0),
                        seed = number("seed", 0, 0..Int.MAX_VALUE),
                    )
                require(faults.isEmpty()) { faults.joinToString("\n") }
                request
            }

        private class Reader(private val extras: Map<String, Any?>) {
            val faults = ArrayList<String>()

            fun fault(what: String, expected: String, received: Any?) {
                faults.add(explain(what, expected, received.toString().take(200)))
            }

            fun text(name: String, default: String?, pattern: Regex): String {
                val value = extras[name] ?: default
                if (value is String && pattern.matches(value)) return value
                fault(name, "$pattern", value)
                return ""
            }

            fun accelerator(): Accelerator {
                val name = text("accelerator", "cpu", Regex("cpu|gpu"))
                return if (name == "gpu") Accelerator.GPU else Accelerator.CPU
            }

            fun numbers(name: String, default: List<Int>, most: Int): List<Int> {
                if (extras[name] == null) return default
                val values = text(name, null, NUMBERS).split(',').mapNotNull { it.toIntOrNull() }
                if (values.any { it !in 1..most } || values.distinct().size < values.size) {
                    fault(name, "different numbers from 1 to $most", extras[name])
                }
                return values
            }

            fun number(name: String, default: Int, range: IntRange): Int {
                val value = extras[name] ?: default
                if (value is Int && value in range) return value
                fault(name, "$range", value)
                return default
            }

            fun seconds(name: String, default: Double): Double {
                val value = extras[name] ?: return default
                val seconds = (value as? Number)?.toDouble() ?: Double.NaN
                if (seconds in 0.0..MOST_SECONDS) return seconds
                fault(name, "0 to $MOST_SECONDS seconds", value)
                return default
            }
        }
    }
}
