"""What the papers published, against our own counts and against itself."""

import re
import statistics

import published_recipes
import pytest
from papers import published

from tfdistill import config, models
from tfdistill.commands import recipes as recipe_commands

SPEEDS = [row for row in published.ROWS if row.time is not None]


def test_every_row_is_of_a_source_and_of_a_preset():
    assert {row.source for row in published.ROWS} == {s.key for s in published.SOURCES}
    assert {row.model for row in published.ROWS} <= set(models.presets())
    assert {row.model for row in published.ROWS} == set(published.TITLES)
    places = [(row.source, row.model) for row in published.ROWS]
    assert len(places) == len(set(places))


def test_every_source_says_where_it_stands_and_what_it_measured():
    for source in published.SOURCES:
        assert source.paper and source.place and source.device and source.conditions
        assert len(source.arxiv.split(".")[0]) == (0 if source.key == "ai_hub" else 4)


@pytest.mark.parametrize("row", SPEEDS, ids=lambda row: f"{row.source}-{row.model}")
def test_a_published_speedup_is_the_ratio_of_the_published_times(row):
    reference = published.row_of(row.source, published.REFERENCE)
    assert row.speedup == pytest.approx(reference.time / row.time)


def test_the_speedups_are_those_that_the_papers_state_in_words():
    said = {
        ("mobilebert", "mobilebert"): 5.5,  # abstract
        ("distilbert", "distilbert_6l_768d"): 1.6,  # "60% faster"
        ("distilbert_phone", "distilbert_6l_768d"): 1.7,  # "71% faster"
        ("tinybert", "tinybert_4l_312d"): 9.4,
        ("tinybert", "tinybert_6l_768d"): 2.0,
    }
    for (source, model), factor in said.items():
        assert round(published.row_of(source, model).speedup, 1) == factor


@pytest.mark.parametrize("model", published.TITLES)
def test_the_presets_have_the_sizes_that_were_published(model):
    config = models.preset(model)
    for row in published.rows_of(model):
        # TinyBERT's 14.5 M holds a projection of 0.24 M; MobileBERT's 25.3 M does not share the
        # input of queries and keys, as the released weights do; their 5.7 G is 5% above 2 x MAC.
        if row.parameters is not None:
            assert models.count_parameters(config) == pytest.approx(row.parameters, rel=0.03)
        if row.flops is not None:
            assert models.flops(config, 128) == pytest.approx(row.flops, rel=0.06)


def test_on_an_npu_the_deepest_network_is_the_slowest():
    times = {row.model: row.time for row in published.ROWS if row.source == "ai_hub"}
    depth = {model: models.preset(model).num_layers for model in times}
    assert sorted(times, key=lambda model: times[model]) == sorted(
        times, key=lambda model: depth[model]
    )
    assert published.row_of("ai_hub", "mobilebert").speedup < 1  # on a phone's CPU it has 5.5


def test_a_row_that_no_paper_has_is_none():
    assert published.row_of("tinybert", "mobilebert") is None
    assert published.rows_of("bert_large") == ()


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
    (said,) = re.findall(r"Expect: (.+?) The same path", header(recipe))
    return [float(number) for number in re.findall(r"\b\d\d\.\d\b", said)]


@pytest.mark.parametrize("layers, width", [(4, 312), (6, 768)])
def test_the_rows_of_tinybert_have_the_paper_s_scores_and_their_mean(layers, width):
    scores = {title: s for (recipe, title), s in SCORES.items() if recipe == f"tinybert_{layers}l"}
    assert scores == TINYBERT[layers]
    mean = statistics.fmean([*scores.values(), MISMATCHED[layers]])
    row = published.row_of("tinybert", f"tinybert_{layers}l_{width}d")
    assert round(mean, 1) == row.glue


@pytest.mark.parametrize("model", ["mobilebert", "mobilebert_tiny", "mobilebert_without_opt"])
def test_the_rows_of_mobilebert_have_the_published_average(model):
    row = published.row_of("mobilebert", model)
    assert SCORES["mobilebert", f"{published.title(model)}, progressive"] == row.glue


def test_the_rows_of_pkd_have_the_paper_s_scores_and_no_other_row_has_any():
    patient = {("pkd", f"{task}, 6 layers, skip"): score for task, score in PATIENT.items()}
    assert patient.items() <= SCORES.items()
    assert len(SCORES) == 2 * 8 + 3 + 3


def test_the_headers_have_the_figures_of_their_papers():
    averages = [published.row_of("distilbert", m).glue for m in ("distilbert_6l_768d", "bert_base")]
    squad = [77.7, 85.8]  # Sanh et al. 2019, table 2
    assert expected_by("distilbert_6l") == [*averages, *squad]
    assert expected_by("distilbert_6l_squad") == [*squad, 79.1, 86.9]
    assert expected_by("bilstm_sst2") == BILSTM
    for row in published_recipes.ROWS:
        if row.score is not None and not row.overrides:
            assert expected_by(row.recipe) == [row.score]


def test_no_other_header_has_a_figure_of_a_paper():
    checked = {*(recipe for recipe, _ in SCORES), "distilbert_6l", "distilbert_6l_squad"}
    for recipe in config.recipes().keys() - checked - {"bilstm_sst2"}:
        assert "the paper reports" not in header(recipe), recipe
