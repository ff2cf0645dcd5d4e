package io.github.tfdistill.demo

import android.app.Application
import android.content.ComponentCallbacks2
import android.content.Context
import android.os.Handler
import android.os.Looper
import io.github.tfdistill.benchmark.GpuRecord
import io.github.tfdistill.benchmark.Services
import io.github.tfdistill.runtime.AssetSource
import java.util.concurrent.Executor
import org.tensorflow.lite.TensorFlowLite

/** What the screens show, kept while they are turned; each made when it is first shown. */
class Screens(context: Context, services: Services, gpu: GpuRecord, onMain: Executor) {
    private val lazyMain = lazy { MainModel(services, gpu, onMain) }
    private val lazySearch = lazy { SearchModel(services, onMain) }

    val main: MainModel by lazyMain
    val compare: CompareModel by lazy { CompareModel(services, onMain) }
    val search: SearchModel by lazySearch
    val measure: MeasureModel by lazy { MeasureModel(context, services, gpu, onMain) }

    /** Closes the main screen's model: two models at a time on a GPU make LiteRT fail. */
    fun releaseMain() {
        if (lazyMain.isInitialized()) main.release()
    }

    /** Closes all models until they are needed again: Android wants the memory. */
    fun release() {
        releaseMain()
        if (lazySearch.isInitialized()) search.release()
    }
}

class DemoApplication : Application() {
    private lateinit var shownServices: Services

    /** What the screens stand on; a test sets its own, and the screens start anew. */
    var services: Services
        get() = shownServices
        set(value) {
            shownServices = value
            screens = Screens(this, value, gpu, onMainThread())
        }

    lateinit var screens: Screens
        private set

    /** Made at the start: a mark that is there now was left behind by the process before. */
    val gpu: GpuRecord by lazy { GpuRecord(this) { services.runtimeVersion() } }

    override fun onCreate() {
        super.onCreate()
        services =
            Services(
                AssetSource(assets),
                AssetModels(this),
                runtimeVersion = TensorFlowLite::runtimeVersion,
            )
    }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        if (level >= ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN) screens.release()
    }

    /** Runs jobs on the main thread. */
    fun onMainThread(): Executor {
        val handler = Handler(Looper.getMainLooper())
        return Executor { handler.post(it) }
    }
}
