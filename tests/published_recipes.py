"""The rows of docs/guides/papers.md: recipes with the options of a paper's task or model."""

import dataclasses
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class PublishedRecipe:
    """A row of the table.

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


def _row(line: str) -> PublishedRecipe:
    recipe, title, options, score = (cell.strip() for cell in line.strip("| \n").split(" | "))
    words = [] if options == "none" else shlex.split(options.strip("`"))
    assert set(words[::2]) <= {"--set"}
    return PublishedRecipe(
        recipe.strip("`"),
        title,
        tuple(words[1::2]),
        None if score == "–" else float(score.split()[0]),
    )


_SECTION = re.split(r"^## ", (ROOT / "docs/guides/papers.md").read_text("utf-8"), flags=re.M)[1]
ROWS = tuple(_row(line) for line in _SECTION.splitlines() if line.startswith("| `"))
IDS = tuple(f"{row.recipe}, {row.title}" for row in ROWS)
