"""The figures of docs/reference/papers.md and of recipes' headers: the papers', and our counts."""

import re
import statistics

import published_recipes
import pytest

from tfdistill import config, models
from tfdistill.commands import runs as recipe_commands

_PAGE = (published_recipes.ROOT / "docs/reference/papers.md").read_text("utf-8")
_TABLES = [
    [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    for table in re.findall(r"(?:^\|.*\n)+", _PAGE.split("\n## Size and speed")[1], re.M)
]
OURS = {title: [preset.strip("`"), *cells] for title, preset, *cells in _TABLES[0]}
PUBLISHED = {(source, title): cells for source, title, *cells in _TABLES[1]}


def number(cell):
    """Returns "109 M", "342 ms", "5.52×" as a number, None for a dash."""
    value, _, unit = cell.rstrip("×").partition(" ")
    return None if cell == "–" else float(value) * {"M": 1e6, "G": 1e9}.get(unit, 1)


def glue(source, title):
    return number(PUBLISHED[source, title][-1])


@pytest.mark.parametrize("title", OURS)
def test_the_presets_have_the_counts_of_the_page_and_those_that_were_published(title):
    preset, parameters, flops, *_ = OURS[title]
    shape = models.preset(preset)
    counts = models.count_parameters(shape), models.flops(shape, 128)
    assert (f"{counts[0]:,}", f"{counts[1] / 1e9:#.3g} G") == (parameters, flops)
    for (_, model), (*published, _, _, _) in PUBLISHED.items():
        # TinyBERT's 14.5 M holds a projection of 0.24 M; MobileBERT's 25.3 M does not share the
        # input of queries and keys, as the released weights do; their 5.7 G is 5% above 2 x MAC.
        for count, cell, error in zip(counts, published, (0.03, 0.06), strict=True):
            assert model != title or cell == "–" or count == pytest.approx(number(cell), rel=error)


def test_a_published_speedup_is_the_ratio_of_the_published_times():
    timed = {place: number(cells[2]) for place, cells in PUBLISHED.items() if cells[2] != "–"}
    for (source, title), time in timed.items():
        speedup = number(PUBLISHED[source, title][3])
        assert speedup == pytest.approx(timed[source, "BERT-base"] / time, abs=0.005)  # two digits
    assert len(timed) == 6 and {title for _, title in PUBLISHED} == OURS.keys()


# Jiao et al. 2020, TinyBERT, table 1 (GLUE's test sets); a row is of the matched set of MNLI.
TINYBERT = {
    4: {"MNLI": 82.5, "QQP": 71.3, "QNLI": 87.7, "SST-2": 92.6, "CoLA": 44.1, "STS-B": 80.4},
    6: {"MNLI": 84.6, "QQP": 71.6, "QNLI": 90.4, "SST-2": 93.1, "CoLA": 51.1, "STS-B": 83.7},
}
TINYBERT[4] |= {"MRPC": 86.4, "RTE": 66.6}
TINYBERT[6] |= {"MRPC": 87.3, "RTE": 70.0}
MISMATCHED = {4: 81.8, 6: 83.2}
# The same table's BERT-PKD of 6 layers, and Tang et al. 2019 with and without the teacher.
PATIENT = {"MNLI": 81.5, "SST-2": 92.0, "MRPC": 85.0}
BILSTM = [90.7, 86.7]
SCORES = {
    (row.recipe, row.title): row.score for row in published_recipes.ROWS if row.score is not None
}


def header(recipe):
    text = config.recipes()[recipe].read_text(encoding="utf-8")
    return " ".join(recipe_commands.header(text).split())


def expected_by(recipe):
    """The scores that a recipe's header takes from its paper, in points with one digit."""
    (said,) = re.findall(r"Expect: (.+?)(?: Source:|$)", header(recipe))
    return [float(score) for score in re.findall(r"\b\d\d\.\d\b", said)]


@pytest.mark.parametrize("layers", [4, 6])
def test_the_rows_of_tinybert_have_the_paper_s_scores_and_their_mean(layers):
    scores = {title: s for (recipe, title), s in SCORES.items() if recipe == f"tinybert_{layers}l"}
    assert scores == TINYBERT[layers]
    mean = statistics.fmean([*scores.values(), MISMATCHED[layers]])
    assert round(mean, 1) == glue("TinyBERT", f"TinyBERT{layers}")


def test_the_rows_of_mobilebert_and_pkd_have_the_published_scores_and_no_other_row_has_any():
    expected = {
        ("mobilebert", f"{title}, progressive"): glue("MobileBERT", title)
        for title in OURS
        if title.startswith("MobileBERT")
    }
    expected |= {("pkd", f"{task}, 6 layers, skip"): score for task, score in PATIENT.items()}
    assert expected.items() <= SCORES.items()
    assert len(SCORES) == 2 * 8 + 3 + 3


def test_the_headers_have_the_figures_of_their_papers_and_no_other_has_one():
    averages = [glue("DistilBERT", title) for title in ("DistilBERT", "BERT-base")]
    squad = [77.7, 85.8]  # Sanh et al. 2019, table 2
    scored = [row for row in published_recipes.ROWS if row.score is not None]
    figures = {row.recipe: [row.score] for row in scored if not row.overrides}
    figures |= {"distilbert_6l": [*averages, *squad], "bilstm_sst2": BILSTM}
    figures["distilbert_6l_squad"] = [*squad, 79.1, 86.9]
    assert {recipe: expected_by(recipe) for recipe in figures} == figures
    for recipe in config.recipes().keys() - figures:
        assert "the paper reports" not in header(recipe), recipe
