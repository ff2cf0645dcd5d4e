package io.github.tfdistill.demo

import android.app.Activity
import android.view.View
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.EditText
import android.widget.Spinner
import android.widget.TextView

/** A view of the screen's layout. */
fun <T : View> Activity.view(id: Int): T = checkNotNull(findViewById<T>(id))

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

/** Offers names, of which one is chosen; touches nothing where that is so already. */
fun Spinner.offer(names: List<String>, chosen: String?) {
    if (adapter?.count != names.size) {
        adapter = ArrayAdapter(context, android.R.layout.simple_spinner_dropdown_item, names)
    }
    val at = names.indexOf(chosen)
    if (at >= 0 && at != selectedItemPosition) setSelection(at)
}

/** Shows a text, or nothing; a screen reader speaks it only when it is another one. */
fun TextView.say(words: String?) {
    showIf(words != null)
    if (text.toString() != words.orEmpty()) text = words
}

fun View.showIf(holds: Boolean) {
    visibility = if (holds) View.VISIBLE else View.GONE
}
