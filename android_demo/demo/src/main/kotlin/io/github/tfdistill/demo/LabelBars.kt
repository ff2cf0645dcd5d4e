package io.github.tfdistill.demo

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.ProgressBar
import android.widget.TextView
import io.github.tfdistill.text.Scored

/** Labels with their probabilities, each above a bar; says so where not all are shown. */
object LabelBars {
    private const val MOST = 100 // more would take longer to lay out than to compute
    private const val PARTS = 1000

    fun show(rows: ViewGroup, labels: List<Scored>) {
        rows.removeAllViews()
        val inflater = LayoutInflater.from(rows.context)
        for (label in labels.take(MOST)) {
            val row = inflater.inflate(R.layout.label, rows, false)
            checkNotNull(row.findViewById<TextView>(R.id.label)).text =
                Wording.probability(rows.resources, label)
            checkNotNull(row.findViewById<ProgressBar>(R.id.bar)).progress =
                (PARTS * label.probability).toInt()
            rows.addView(row)
        }
        if (labels.size > MOST) {
            val note = TextView(rows.context)
            note.text = rows.resources.getString(R.string.some_labels, MOST, labels.size)
            rows.addView(note)
        }
        rows.visibility = if (labels.isEmpty()) View.GONE else View.VISIBLE
    }
}
