"""The rows of docs/reference/papers.md: recipes with the options of a paper's task or model."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class PublishedRecipe:
    """A row of the table, for one recipe.

    Attributes:
      recipe: The name of a recipe.
      title: The task or model.
      overrides: Assignments of the options ``--set``.
      score: What the paper published; None for a dash.
    """

    recipe: str
    title: str
    overrides: tuple[str, ...]
    score: float | None

    def changed_by(self, change: "PublishedRecipe") -> "PublishedRecipe | None":
        """Adds the options of a row "old → new" of the same recipe; None if it has no "old"."""
        old, new = change.title.split(" → ")
        parts = self.title.split(", ")
        if self.recipe != change.recipe or old not in parts:
            return None
        title = ", ".join(new if part == old else part for part in parts)
        return PublishedRecipe(self.recipe, title, self.overrides + change.overrides, None)


def _rows(line: str) -> list[PublishedRecipe]:
    recipes, title, options, scores = (cell.strip() for cell in line.strip("| \n").split(" | "))
    words = [] if options == "none" else shlex.split(options.strip("`"))
    assert set(words[::2]) <= {"--set"}
    names = re.findall(r"`(\w+)`", recipes)
    values = [float(score) for score in re.findall(r"\d+\.\d+", scores)] or [None] * len(names)
    assert bool(values[0]) != (scores == "–")
    return [
        PublishedRecipe(name, title, tuple(words[1::2]), score)
        for name, score in zip(names, values, strict=True)
    ]


def _expanded(listed: Iterable[PublishedRecipe]) -> list[PublishedRecipe]:
    rows: list[PublishedRecipe] = []
    for row in listed:
        if " → " in row.title:
            rows += filter(None, [earlier.changed_by(row) for earlier in rows])
        else:
            rows.append(row)
    return rows


_SECTION = re.split(r"^## ", (ROOT / "docs/reference/papers.md").read_text("utf-8"), flags=re.M)[1]
_LINES = [line for line in _SECTION.splitlines() if line.startswith("| `")]
ROWS = tuple(_expanded(row for line in _LINES for row in _rows(line)))
IDS = tuple(f"{row.recipe}, {row.title}" for row in ROWS)
