package io.github.tfdistill.demo

import android.app.Application
import android.content.ComponentCallbacks2
import android.os.Handler
import android.os.Looper
import io.github.tfdistill.benchmark.GpuRecord
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.runtime.AssetSource
import java.util.concurrent.Executor
import org.tensorflow.lite.TensorFlowLite

class DemoApplication : Application() {
    /** Made at first use, so that a test can set its own before. */
    var services: Services
        get() =
            own
                ?: Services(
                        AssetSource(assets),
                        AssetModels(this),
                        runtimeVersion = TensorFlowLite::runtimeVersion,
                    )
                    .also { own = it }
        set(value) {
            own = value
            lazyMain = mainModel() // what stood on the others is of no use
            lazyCompare = compareModel()
            lazySearch = searchModel()
            lazyMeasure = measureModel()
        }

    private var own: Services? = null

    /** What the screens show, kept while they are turned. */
    val main: MainModel
        get() = lazyMain.value

    val compare: CompareModel
        get() = lazyCompare.value

    val search: SearchModel
        get() = lazySearch.value

    val measure: MeasureModel
        get() = lazyMeasure.value

    private var lazyMain = mainModel()
    private var lazyCompare = compareModel()
    private var lazySearch = searchModel()
    private var lazyMeasure = measureModel()

    private fun mainModel() = lazy { MainModel(services, gpu, onMainThread()) }

    private fun compareModel() = lazy { CompareModel(services, onMainThread()) }

    private fun searchModel() = lazy { SearchModel(services, onMainThread()) }

    private fun measureModel() = lazy { MeasureModel(this, services, onMainThread()) }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        if (level < ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN) return
        releaseMain()
        if (lazySearch.isInitialized()) search.release()
    }

    /** Closes the main screen's model: two models at a time on a GPU make LiteRT fail. */
    fun releaseMain() {
        if (lazyMain.isInitialized()) main.release()
    }

    /** Made at the start: a mark that is there now was left behind by the process before. */
    val gpu: GpuRecord by lazy { GpuRecord(this) { services.runtimeVersion() } }

    /** Runs jobs on the main thread. */
    fun onMainThread(): Executor {
        val handler = Handler(Looper.getMainLooper())
        return Executor { handler.post(it) }
    }
}
