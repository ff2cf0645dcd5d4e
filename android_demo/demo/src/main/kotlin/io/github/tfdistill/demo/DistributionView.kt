package io.github.tfdistill.demo

import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.util.AttributeSet
import android.util.TypedValue
import android.view.View
import io.github.tfdistill.benchmark.Distribution

/** Draws how latencies are distributed; the median and the 90th percentile are marked. */
class DistributionView(context: Context, attributes: AttributeSet?) : View(context, attributes) {
    /** What to draw; null for nothing. */
    var distribution: Distribution? = null
        set(value) {
            field = value
            contentDescription =
                value?.let {
                    resources.getString(
                        R.string.distribution,
                        it.lowMs,
                        it.highMs,
                        it.summary.p50Ms,
                        it.summary.p90Ms,
                    )
                }
            invalidate()
        }

    private val bars = Paint().apply { color = context.getColor(R.color.bars) }
    private val marks =
        Paint(Paint.ANTI_ALIAS_FLAG).apply {
            color = textColour()
            strokeWidth = pixels(TypedValue.COMPLEX_UNIT_DIP, 2f)
            textSize = pixels(TypedValue.COMPLEX_UNIT_SP, 12f)
        }

    override fun onMeasure(widthSpec: Int, heightSpec: Int) {
        val highest = pixels(TypedValue.COMPLEX_UNIT_DIP, 96f)
        val height = (paddingTop + highest + 2 * marks.fontSpacing + paddingBottom).toInt()
        setMeasuredDimension(
            getDefaultSize(suggestedMinimumWidth, widthSpec),
            resolveSize(height, heightSpec),
        )
    }

    override fun onDraw(canvas: Canvas) {
        val shown = distribution ?: return
        val line = marks.fontSpacing
        val top = paddingTop + line // room for the names of the marks
        val bottom = height - paddingBottom - line
        val bar = width.toFloat() / shown.heights.size
        val gap = minOf(bar / 4, pixels(TypedValue.COMPLEX_UNIT_DIP, 1f))
        for ((index, high) in shown.heights.withIndex()) {
            val left = index * bar
            canvas.drawRect(
                left,
                bottom - (bottom - top) * high.toFloat(),
                left + bar - gap,
                bottom,
                bars,
            )
        }
        drawMark(canvas, shown, "p50", shown.summary.p50Ms, top, bottom)
        drawMark(canvas, shown, "p90", shown.summary.p90Ms, top, bottom)
        drawEnd(canvas, milliseconds(shown.lowMs), Paint.Align.LEFT, 0f)
        drawEnd(canvas, milliseconds(shown.highMs), Paint.Align.RIGHT, width.toFloat())
    }

    private fun drawMark(
        canvas: Canvas,
        shown: Distribution,
        name: String,
        ms: Double,
        top: Float,
        bottom: Float,
    ) {
        val x = (shown.place(ms) * width).toFloat().coerceIn(1f, width - 1f)
        canvas.drawLine(x, top, x, bottom, marks)
        val space = marks.measureText(name) / 2
        marks.textAlign = Paint.Align.CENTER
        canvas.drawText(name, x.coerceIn(space, width - space), top - marks.descent(), marks)
    }

    private fun drawEnd(canvas: Canvas, text: String, align: Paint.Align, x: Float) {
        marks.textAlign = align
        canvas.drawText(text, x, height - paddingBottom - marks.descent(), marks)
    }

    private fun milliseconds(ms: Double) = resources.getString(R.string.milliseconds, ms)

    private fun pixels(unit: Int, value: Float): Float =
        TypedValue.applyDimension(unit, value, resources.displayMetrics)

    private fun textColour(): Int {
        val attributes = context.obtainStyledAttributes(intArrayOf(android.R.attr.textColorPrimary))
        try {
            return attributes.getColor(0, context.getColor(R.color.accent))
        } finally {
            attributes.recycle()
        }
    }
}
