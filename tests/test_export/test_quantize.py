import itertools

import pytest

import export
from export.conversion import quantize
from tfdistill import errors


def test_every_quantization_is_named_in_the_grammar():
    offered = export.quantizations()
    assert list(offered) == [
        "float32",
        "float16",
        "weight_only_wi8_afp32",
        "dynamic_wi8_afp32",
        "static_wi8_ai8",
        "dynamic_wi4_afp32_block32",
        "dynamic_wi4_afp32_block64",
        "dynamic_wi4_afp32",
    ]
    for name, value in offered.items():
        assert value.name == name
        assert quantize.quantization(name) is value


def test_short_names_stand_for_int8_and_int4_of_any_width():
    assert quantize.quantization("int8").name == "dynamic_wi8_afp32"
    assert quantize.quantization("int4").name == "dynamic_wi4_afp32"
    with pytest.raises(errors.ConfigError, match=r"Valid choices: .*, int4, int8, "):
        quantize.quantization("q7")
    with pytest.raises(errors.ConfigError, match=r"Choose from .*, int8, int4\."):
        quantize.quantization("dynamic_wi8_afp32_block64")
    with pytest.raises(errors.ConfigError, match="Did you mean 'int8'"):
        quantize.quantization("int88")


def test_a_name_says_what_the_value_holds():
    for name, value in export.quantizations().items():
        if value.method == "float":
            assert name == f"float{value.weight_bits}"
            continue
        activations = "i8" if value.method == "static" else "fp32"
        block = f"_block{value.block}" if value.block else ""
        assert name == f"{value.method}_wi{value.weight_bits}_a{activations}{block}"
        assert value.needs_calibration == name.startswith("static_")


def test_finer_formats_come_first_and_are_allowed_to_differ_less():
    ordered = list(export.quantizations().values())
    for finer, coarser in itertools.pairwise(ordered):
        assert finer.bounds.max_error <= coarser.bounds.max_error
        assert finer.bounds.mean_error <= coarser.bounds.mean_error
        assert finer.bounds.sqnr_db >= coarser.bounds.sqnr_db
        assert finer.bounds.argmax_agreement >= coarser.bounds.argmax_agreement
        assert finer.bounds.metric_drop <= coarser.bounds.metric_drop


@pytest.mark.parametrize(
    ("name", "bytes_per_weight"),
    [
        ("float32", 4),
        ("float16", 2),
        ("static_wi8_ai8", 1),
        ("dynamic_wi4_afp32", 0.5),
        ("dynamic_wi4_afp32_block32", 0.5625),  # and a float16 for 32 of them
        ("dynamic_wi4_afp32_block64", 0.53125),
    ],
)
def test_bytes_of_a_weight(name, bytes_per_weight):
    assert quantize.quantization(name).bytes_per_weight == bytes_per_weight


@pytest.mark.parametrize("name", quantize.refused())
def test_what_was_tried_and_is_not_offered_says_why_and_what_to_take(name):
    with pytest.raises(errors.ConfigError) as caught:
        quantize.quantization(name)
    message = str(caught.value)
    assert quantize.refused()[name] in message
    assert message.rpartition("Take ")[2].rstrip(".") in export.quantizations()


def test_the_looser_of_two_bounds_counts():
    fine, coarse = (quantize.quantization(n).bounds for n in ("float32", "dynamic_wi4_afp32"))
    assert fine.loosest(coarse) == coarse.loosest(fine) == coarse
    odd = fine.replace({"max_error": 9.0})
    assert odd.loosest(coarse) == coarse.replace({"max_error": 9.0})


def test_a_name_of_the_grammar_that_is_not_offered_says_so():
    with pytest.raises(errors.ConfigError, match=r"one that this version offers.*Choose from"):
        quantize.quantization("static_wi4_ai4")


def test_bounds_are_changed_by_name():
    bounds = quantize.quantization("float16").bounds
    changed = bounds.replace({"sqnr_db": 30.0})
    assert changed.as_dict() == {**bounds.as_dict(), "sqnr_db": 30.0}
    with pytest.raises(errors.ConfigError, match="Did you mean 'max_error'"):
        bounds.replace({"max_err": 1.0})
