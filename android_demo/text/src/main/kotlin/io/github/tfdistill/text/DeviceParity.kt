package io.github.tfdistill.text

import java.util.Locale
import kotlin.math.log10
import kotlin.math.pow

/**
 * How far an accelerator's answers may be from those of the file on a computer.
 *
 * @property maxError largest difference / rms of the computer's outputs
 * @property sqnrDb smallest 10 log10(sum host^2 / sum (host - here)^2), in dB
 */
@ConsistentCopyVisibility
public data class ParityBounds
internal constructor(public val maxError: Double, public val sqnrDb: Double) {
    internal companion object {
        /**
         * What an export in float16 is held to (export/conversion/quantize.py); a GPU computes in
         * it.
         */
        val FLOAT16 = ParityBounds(0.02, 45.0)
        private val ROUNDS_ACTIVATIONS = Regex("(dynamic|static)_.*")

        /**
         * The bounds of a bundle: those of float16. Where a CPU rounds activations to integers,
         * which a GPU does not, the two differ by that rounding, too: what the file itself was
         * allowed to lose by it (`parity.bounds` of model.json) is added, amplitudes for the SQNR.
         */
        fun of(card: Manifest): ParityBounds {
            val names = card.quantizedLayers.values + card.quantization
            val bounds = card.parity?.bounds.orEmpty()
            if (names.none(ROUNDS_ACTIVATIONS::matches)) return FLOAT16
            val error = bounds["max_error"] ?: return FLOAT16
            val sqnrDb = bounds["sqnr_db"] ?: return FLOAT16
            val noise = amplitude(FLOAT16.sqnrDb) + amplitude(sqnrDb)
            return ParityBounds(FLOAT16.maxError + error, -20 * log10(noise))
        }

        private fun amplitude(decibel: Double) = 10.0.pow(-decibel / 20)
    }
}

/**
 * What comparing an accelerator's answers with golden.json came to.
 *
 * @property numAnswers how many were compared, over all lengths
 * @property unchecked lengths that no example fits into
 * @property maxError largest difference / rms of the computer's outputs
 * @property sqnrDb null where there is no difference
 * @property changed examples with another label, tag, start or end: one makes it fail
 * @property worst the example with the largest difference
 */
@ConsistentCopyVisibility
public data class DeviceParity
internal constructor(
    public val bundle: String,
    public val numAnswers: Int,
    public val unchecked: List<Int>,
    public val maxError: Double,
    public val sqnrDb: Double?,
    public val changed: List<String>,
    public val worst: String,
    public val bounds: ParityBounds,
) {
    public val passed: Boolean
        get() = faults().isEmpty()

    /** One line for each thing that keeps the accelerator from being used; empty if it passed. */
    public fun faults(): List<String> {
        val what = "answers of $bundle on this device"
        val faults = ArrayList<String>()
        if (numAnswers == 0 || unchecked.isNotEmpty()) {
            val remedy = "Export with examples that are short enough."
            val lengths = unchecked.ifEmpty { "any length" }
            faults +=
                explain(what, "a golden example for every length", "none for $lengths", remedy)
        }
        if (changed.isNotEmpty()) {
            val received = "others for ${changed.size} of $numAnswers"
            faults += explain(what, "the labels of golden.json", received, "Such as: ${changed[0]}")
        }
        if (!(maxError <= bounds.maxError)) {
            val expected = "an error / rms of at most ${text("%.3g", bounds.maxError)}"
            faults += explain(what, expected, text("%.3g", maxError), "Largest for: $worst")
        }
        if (sqnrDb != null && !(sqnrDb >= bounds.sqnrDb)) {
            val expected = text("an SQNR of at least %.1f dB", bounds.sqnrDb)
            faults += explain(what, expected, text("%.1f dB", sqnrDb))
        }
        return faults
    }

    private fun text(format: String, value: Double) = format.format(Locale.ROOT, value)
}
