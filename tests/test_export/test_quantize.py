import itertools

import pytest

import export
from export import quantize
from tfdistill import errors


def test_every_quantization_is_named_in_the_grammar():
    offered = export.quantizations()
    assert list(offered) == ["float32", "float16", "dynamic_wi8_afp32"]
    for name, value in offered.items():
        assert value.name == name
        assert quantize.quantization(name) is value


def test_smaller_formats_are_allowed_to_differ_more():
    ordered = list(export.quantizations().values())
    for finer, coarser in itertools.pairwise(ordered):
        assert finer.bytes_per_weight > coarser.bytes_per_weight
        assert finer.bounds.max_error < coarser.bounds.max_error
        assert finer.bounds.mean_error < coarser.bounds.mean_error
        assert finer.bounds.sqnr_db > coarser.bounds.sqnr_db
        assert finer.bounds.argmax_agreement > coarser.bounds.argmax_agreement
        assert finer.bounds.metric_drop < coarser.bounds.metric_drop


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(errors.ConfigError, match="Did you mean 'dynamic_wi8_afp32'"):
        quantize.quantization("dynamic_wi8_afp16x")


def test_a_name_of_the_grammar_that_is_not_offered_says_so():
    with pytest.raises(errors.ConfigError, match=r"one that this version offers.*Choose from"):
        quantize.quantization("static_wi8_ai8")


def test_bounds_are_changed_by_name():
    bounds = quantize.quantization("float16").bounds
    changed = bounds.replace({"sqnr_db": 30.0})
    assert changed.as_dict() == {**bounds.as_dict(), "sqnr_db": 30.0}
    with pytest.raises(errors.ConfigError, match="Did you mean 'max_error'"):
        bounds.replace({"max_err": 1.0})
