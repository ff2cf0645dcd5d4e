package io.github.tfdistill.demo

import android.app.Activity
import android.view.LayoutInflater
import android.view.View
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.EditText
import android.widget.FrameLayout
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.TextView
import io.github.tfdistill.text.Scored

/**
 * Shows a layout between the bars, the cut-out and the keyboard, which lie over the window since
 * Android 15.
 *
 * The frame around it takes the room, not what scrolls itself: that has to become smaller to keep
 * what is being typed in sight. The framework's own frame does not do it from API 35 on.
 */
fun Activity.showLayout(layout: Int) {
    val frame = FrameLayout(this)
    frame.fitsSystemWindows = true
    layoutInflater.inflate(layout, frame)
    setContentView(frame)
}

/** A view of the screen's layout. */
fun <T : View> Activity.view(id: Int): T = checkNotNull(findViewById<T>(id))

/** A view of a row. */
fun <T : View> View.part(id: Int): T = checkNotNull(findViewById<T>(id))

/** Shows a row of a layout for each item. */
fun <T> LinearLayout.fill(layout: Int, items: List<T>, show: (row: View, item: T) -> Unit) {
    removeAllViews()
    val inflater = LayoutInflater.from(context)
    for (item in items) addView(inflater.inflate(layout, this, false).also { show(it, item) })
}

private const val MOST_BARS = 100 // more would take longer to lay out than to compute
private const val BAR_PARTS = 1000

/** Shows labels with their probabilities, each above a bar; says so where not all are shown. */
fun LinearLayout.showLabels(labels: List<Scored>) {
    fill(R.layout.label, labels.take(MOST_BARS)) { row, label ->
        row.part<TextView>(R.id.label).text = resources.probability(label)
        row.part<ProgressBar>(R.id.bar).progress = (BAR_PARTS * label.probability).toInt()
    }
    if (labels.size > MOST_BARS) {
        val note = TextView(context)
        note.text = resources.getString(R.string.some_labels, MOST_BARS, labels.size)
        addView(note)
    }
    showIf(labels.isNotEmpty())
}

/** What a user typed. */
fun Activity.typed(id: Int): String = view<EditText>(id).text.toString()

/** Is told which name was chosen. */
fun Spinner.onChosen(tell: (String) -> Unit) {
    onItemSelectedListener =
        object : AdapterView.OnItemSelectedListener {
            override fun onItemSelected(list: AdapterView<*>, view: View?, at: Int, id: Long) =
                tell(list.getItemAtPosition(at) as String)

            override fun onNothingSelected(list: AdapterView<*>) = Unit
        }
}

/** Offers names, and chooses one where they are new; after that the choice is the user's. */
fun Spinner.offer(names: List<String>, chosen: String? = null) {
    if (adapter?.count == names.size) return
    adapter = ArrayAdapter(context, android.R.layout.simple_spinner_dropdown_item, names)
    choose(chosen)
}

/** Chooses a name if it is offered; touches nothing where that is so already. */
fun Spinner.choose(name: String?) {
    val at = (0 until count).firstOrNull { getItemAtPosition(it) == name } ?: return
    if (at != selectedItemPosition) setSelection(at)
}

/**
 * Has fields saved with their screen, but for a long text when Android may end the app: what it
 * keeps of all screens has to fit into half a megabyte, or the app crashes when it is left.
 */
fun Activity.saveTexts(vararg ids: Int) {
    for (id in ids) {
        val field = view<EditText>(id)
        field.isSaveEnabled = isChangingConfigurations || field.length() <= MOST_SAVED
    }
}

private const val MOST_SAVED = 10_000 // characters of two bytes each, in four fields

/** Shows a text, or nothing; a screen reader speaks it only when it is another one. */
fun TextView.say(words: String?) {
    showIf(words != null)
    if (text.toString() != words.orEmpty()) text = words
}

fun View.showIf(holds: Boolean) {
    visibility = if (holds) View.VISIBLE else View.GONE
}
