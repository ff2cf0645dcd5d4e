"""What the papers published, against our own counts and against itself."""

import pytest

from tfdistill import models
from tfdistill.report import papers, published

SPEEDS = [row for row in published.ROWS if row.time is not None]


def test_every_row_is_of_a_source_and_of_a_preset():
    assert {row.source for row in published.ROWS} == {s.key for s in published.SOURCES}
    assert {row.model for row in published.ROWS} <= set(models.presets())
    assert {row.model for row in published.ROWS} == set(papers.TITLES)
    places = [(row.source, row.model) for row in published.ROWS]
    assert len(places) == len(set(places))


def test_every_source_says_where_it_stands_and_what_it_measured():
    for source in published.SOURCES:
        assert source.paper and source.place and source.device and source.circumstances
        assert len(source.arxiv.split(".")[0]) == 4


@pytest.mark.parametrize("row", SPEEDS, ids=lambda row: f"{row.source}-{row.model}")
def test_a_published_speedup_is_the_ratio_of_the_published_times(row):
    reference = published.row_of(row.source, papers.REFERENCE)
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


@pytest.mark.parametrize("model", papers.TITLES)
def test_the_presets_have_the_sizes_that_were_published(model):
    config = models.preset(model)
    for row in published.rows_of(model):
        # TinyBERT's 14.5 M holds a projection of 0.24 M; MobileBERT's 25.3 M does not share the
        # input of queries and keys, as the released weights do; their 5.7 G is 5% above 2 x MAC.
        if row.parameters is not None:
            assert models.count_parameters(config) == pytest.approx(row.parameters, rel=0.03)
        if row.flops is not None:
            assert models.flops(config, 128) == pytest.approx(row.flops, rel=0.06)


def test_a_row_that_no_paper_has_is_none():
    assert published.row_of("tinybert", "mobilebert") is None
    assert published.rows_of("bert_large") == ()
