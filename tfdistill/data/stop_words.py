"""English words that augmentation leaves alone: they carry grammar, not content."""

from __future__ import annotations

import os
import pathlib

from tfdistill.data import tables

# Written down by word class. The second halves of contractions stand here because BERT's words
# end at an apostrophe: "don't" is "don", "'", "t".
_WORDS = """
a an the
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
one ones oneself who whom whose which what this that these those
each every either neither both all any some none no such another other others
someone somebody something anyone anybody anything everyone everybody everything nobody nothing
about above across after against along among around as at before behind below beneath beside
besides between beyond by down during except for from in inside into like near of off on onto out
outside over past per since than through throughout till to toward towards under until up upon via
with within without
and but or nor so yet if unless because although though while whereas whether
am is are was were be been being have has had having do does did doing done
can could may might must shall should will would ought
not never nt don won ain s t d ll m re ve
how when where why then there here thus hence therefore however
too very just only also even still again once ever more most less least much many few
own same quite rather almost
"""

_NEGATED = "is are was were has have had does did would could should must need"  # + n't

STOP_WORDS: frozenset[str] = frozenset(
    [*_WORDS.split(), *(f"{verb}n" for verb in _NEGATED.split())]
)


def read_stop_words(path: str | os.PathLike[str]) -> frozenset[str]:
    """Reads stop words of your own: any number on a line, with white space between them.

    Args:
      path: A UTF-8 file; an empty one means no stop words.

    Returns:
      The words, lower-cased.

    Raises:
      DataError: If the file is missing or not UTF-8.
    """
    return frozenset(tables.read_text(pathlib.Path(path)).lower().split())
