package io.github.tfdistill.text

/**
 * An entity in a text.
 *
 * @property label its type
 * @property start where it begins in the text, UTF-16
 * @property end where it ends, not included, marks on it included
 * @property text this part of the text
 * @property probability that it is an entity of this type with these edges, see `entities` in
 *   `tfdistill/tasks/decoding.py`; 1 of what a rule finds
 * @property sure whether the file promises that at most a share of such entities is wrong; null
 *   where it promises nothing of entities; true of what a rule finds
 */
public data class Entity(
    public val label: String,
    public val start: Int,
    public val end: Int,
    public val text: String,
    public val probability: Double,
    public val sure: Boolean?,
)

/**
 * A text without its entities.
 *
 * @property text the text with a placeholder such as `[PER_1]` for each entity
 * @property table what each placeholder stands for
 */
public data class Masked(public val text: String, public val table: Map<String, String>) {
    /** Puts the entities back into this text, or into one made of it. */
    public fun restore(text: String): String {
        if (table.isEmpty()) return text
        val placeholders = table.keys.joinToString("|", transform = Regex::escape)
        return Regex(placeholders).replace(text) { table.getValue(it.value) }
    }

    internal companion object {
        /**
         * Puts placeholders in the place of entities; `Predictor.mask` in `tfdistill/predictor.py`
         * is the rule.
         */
        fun of(text: String, entities: List<Entity>): Masked {
            val taken = Regex("\\[[^\\[\\]]*_[0-9]+]").findAll(text).map { it.value }.toSet()
            val names = LinkedHashMap<Pair<String, String>, String>()
            val numbers = HashMap<String, Int>()
            val masked = StringBuilder()
            var end = 0
            for (entity in entities) {
                val name =
                    names.getOrPut(entity.label to entity.text) {
                        generateSequence { numbers.merge(entity.label, 1, Int::plus) }
                            .map { "[${entity.label}_$it]" }
                            .first { it !in taken }
                    }
                masked.append(text, end, entity.start).append(name)
                end = entity.end
            }
            masked.append(text, end, text.length)
            return Masked("$masked", names.entries.associate { (key, name) -> name to key.second })
        }
    }
}
