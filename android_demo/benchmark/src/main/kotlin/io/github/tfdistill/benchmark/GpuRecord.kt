package io.github.tfdistill.benchmark

import android.content.Context
import android.os.Build
import io.github.tfdistill.text.Bundle

/**
 * What is known about the GPU of this device, model by model: which models may run there, because
 * their answers were compared and agreed, and with which the app ended while it tried.
 *
 * A pass counts for one model file, one build of Android (drivers come with it), one version of
 * LiteRT and one of this app; anything else is compared again. Preferences keep it, which are
 * written before they are relied on: what a driver takes down with it, it does not take from there.
 *
 * @property runtimeVersion asks the native library: called on the worker
 */
class GpuRecord(private val context: Context, private val runtimeVersion: () -> String?) {
    private val preferences = context.getSharedPreferences("gpu", Context.MODE_PRIVATE)

    init {
        preferences.getString(MARK, null)?.let { model ->
            val edit = preferences.edit().remove(MARK).remove(PASSED + model).remove(ON + model)
            edit.putBoolean(ENDED + model, true).commit()
        }
    }

    /** What a pass of a model is worth something for. */
    fun circumstances(): String {
        val info = context.packageManager.getPackageInfo(context.packageName, 0)
        @Suppress("DEPRECATION") // longVersionCode begins with API 28
        val app = "${info.versionName} ${info.versionCode} ${info.lastUpdateTime}"
        val runtime = runCatching(runtimeVersion).getOrNull()
        return listOf(Build.FINGERPRINT, "$runtime", app).joinToString("\n")
    }

    /** Whether the answers of a model agreed, in the same circumstances. */
    fun hasPassed(bundle: Bundle): Boolean =
        preferences.getString(PASSED + key(bundle), null) == circumstances()

    /** Whether the user wants the GPU for a model, and it passed. */
    fun isOn(bundle: Bundle): Boolean =
        preferences.getBoolean(ON + key(bundle), false) && hasPassed(bundle)

    /** Whether the app ended with a model on it, and nobody has tried again. */
    fun hasEnded(bundle: Bundle): Boolean = preferences.getBoolean(ENDED + key(bundle), false)

    /** Remembers that the answers agreed, and that the user wants it. */
    fun allow(bundle: Bundle, circumstances: String) {
        val model = key(bundle)
        val edit =
            preferences.edit().putString(PASSED + model, circumstances).putBoolean(ON + model, true)
        edit.remove(ENDED + model).apply()
    }

    /** Remembers whether the user wants it; counts for nothing without a pass. */
    fun switch(bundle: Bundle, wanted: Boolean) =
        preferences.edit().putBoolean(ON + key(bundle), wanted).apply()

    /** Forgets a pass: it failed since. */
    fun forget(bundle: Bundle) {
        val model = key(bundle)
        preferences.edit().remove(PASSED + model).remove(ON + model).apply()
    }

    /**
     * Does what may end the whole process: until it is over a mark says with which model.
     *
     * @param job runs on the worker, and no other meanwhile
     */
    fun <T> during(bundle: Bundle, job: () -> T): T {
        val model = key(bundle)
        preferences.edit().putString(MARK, model).remove(ENDED + model).commit()
        try {
            return job()
        } finally {
            preferences.edit().remove(MARK).commit()
        }
    }

    private fun key(bundle: Bundle): String =
        Accelerator.GPU.let { "${it.fileOf(bundle).manifest.model.sha256} ${it.delegate}" }

    private companion object {
        const val MARK = "trying"
        const val PASSED = "passed "
        const val ON = "on "
        const val ENDED = "ended "
    }
}
