package io.github.tfdistill.text

/**
 * E-mail addresses, IBANs and payment cards, found by form and checksum without a model.
 *
 * `find_patterns` in `tfdistill/tasks/patterns.py` is the rule.
 */
internal object Patterns {
    private const val LETTERS =
        "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u037d\u037f-\u0481\u048a-\u0556"
    private val LOCAL = Regex("[0-9_$LETTERS][0-9$LETTERS._%+'\\&\\-]{0,63}\\z")
    private const val LABEL = "[0-9$LETTERS](?:[0-9$LETTERS\\-]{0,61}[0-9$LETTERS])?"
    private val DOMAIN = Regex("(?:$LABEL\\.){1,8}[$LETTERS]{2,63}")
    private const val MOST_LOCAL = 64
    private val GROUP = Regex("[0-9A-Za-z]+")
    private const val BETWEEN = " -\u00a0\u2009\u202f"
    private const val MOST = 34
    private const val LENGTHS =
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 " +
            "DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 " +
            "HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 " +
            "LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 " +
            "PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 " +
            "TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
    private val LENGTH_OF = LENGTHS.split(' ').associate { it.take(2) to it.drop(2).toInt() }
    private val CARD =
        Regex("(?:[3-6][0-9]{3}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{10,15}")
    private const val LEAST_GROUP = 4
    private val BEGIN = Regex("[A-Za-z]{2}|(?<!\\+)(?<![0-9]\\.)[2-6][0-9]{3}")

    /** What the rules find, in order; of two that overlap the first, or else the longer one. */
    fun find(text: String): List<Entity> {
        val entities = ArrayList<Entity>()
        val all = emails(text) + numbers(text)
        for ((label, start, end) in all.sortedWith(compareBy({ it.start }, { -it.end }))) {
            if (entities.isNotEmpty() && start < entities.last().end) continue
            val last = WordPlaces.pastMarks(text, end)
            entities += Entity(label, start, last, text.substring(start, last), 1.0, true)
        }
        return entities
    }

    private data class Part(val label: String, val start: Int, val end: Int)

    private fun emails(text: String): List<Part> =
        text.indices
            .filter { text[it] == '@' }
            .mapNotNull { at ->
                val begin = maxOf(0, at - MOST_LOCAL)
                val local = LOCAL.find(text.substring(begin, at))
                val domain = DOMAIN.matchAt(text, at + 1)
                if (local == null || domain == null) null
                else Part("EMAIL", begin + local.range.first, domain.range.last + 1)
            }

    private fun numbers(text: String): List<Part> {
        val groups = GROUP.findAll(text).map { it.range }.toList()
        val parts = ArrayList<Part>()
        var skipped = 0 // groups of the number before
        for ((first, group) in groups.withIndex()) {
            if (first < skipped || BEGIN.matchAt(text, group.first) == null) continue
            var best: Part? = null
            var number = ""
            var before = group.first
            for (last in first until groups.size) {
                val (begin, end) = groups[last].first to groups[last].last + 1
                val isNext = begin == before || begin == before + 1 && text[before] in BETWEEN
                if (!isNext || number.length + end - begin > MOST) break
                number += text.substring(begin, end)
                before = end
                val form = formOf(number)
                if (form != null && isRight(form, number)) {
                    best = Part(form, group.first, end)
                    skipped = last + 1
                } else if (form == "IBAN" && group.last - group.first + 1 >= LEAST_GROUP) {
                    skipped = last + 1 // no part of a wrong one is a card
                }
                if (number[0].isDigit() && isDigits(number) && end - begin < LEAST_GROUP) break
            }
            best?.let(parts::add)
        }
        return parts
    }

    private fun isDigits(text: String) = text.all { it in '0'..'9' }

    private fun formOf(number: String): String? =
        if (number.length < LEAST_GROUP) null
        else if (
            LENGTH_OF[number.take(2).uppercase()] == number.length &&
                isDigits(number.substring(2, 4))
        )
            "IBAN"
        else if (CARD.matches(number)) "CARD" else null

    private fun isRight(form: String, number: String): Boolean {
        if (form == "IBAN") {
            val rest =
                (number.drop(4) + number.take(4)).fold(0) { rest, letter ->
                    val value = letter.digitToInt(36)
                    (rest * (if (value > 9) 100 else 10) + value) % 97
                }
            return rest == 1
        }
        val sum =
            number
                .reversed()
                .mapIndexed { place, digit ->
                    val value = (digit - '0') * (1 + place % 2)
                    value / 10 + value % 10
                }
                .sum()
        return sum % 10 == 0
    }
}
