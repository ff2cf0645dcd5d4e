import itertools

import pytest

import export
from export.conversion import quantize
from tfdistill import errors


def test_every_quantization_has_a_name_and_bytes_of_a_weight():
    offered = export.quantizations()
    assert {name: value.bytes_per_weight for name, value in offered.items()} == {
        "float32": 4,
        "float16": 2,
        "weight_only_wi8_afp32": 1,
        "dynamic_wi8_afp32": 1,
        "static_wi8_ai8": 1,
        "dynamic_wi4_afp32_block32": 0.5625,  # and a float16 for 32 of them
        "dynamic_wi4_afp32_block64": 0.53125,
        "dynamic_wi4_afp32": 0.5,
    }
    for name, value in offered.items():
        assert value.name == name
        assert quantize.quantization(name) is value
    for short, name in (("int8", "dynamic_wi8_afp32"), ("int4", "dynamic_wi4_afp32")):
        assert quantize.quantization(short) is offered[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q7", "Valid choices: .*, int4, int8, "),
        ("int88", "Did you mean 'int8'"),
        ("dynamic_wi8_afp32_block64", r"Choose from .*, int8, int4\."),
        ("static_wi4_ai4", "one that this version offers.*Choose from"),
    ],
)
def test_a_name_that_is_not_offered_is_refused(name, message):
    with pytest.raises(errors.ConfigError, match=message):
        quantize.quantization(name)


@pytest.mark.parametrize("name", quantize.refused())
def test_what_was_tried_and_is_not_offered_says_why_and_what_to_take(name):
    with pytest.raises(errors.ConfigError) as caught:
        quantize.quantization(name)
    message = str(caught.value)
    assert quantize.refused()[name] in message
    assert message.rpartition("Take ")[2].rstrip(".") in export.quantizations()


def test_finer_formats_are_allowed_to_differ_less_and_bounds_are_changed_by_name():
    for finer, coarser in itertools.pairwise(export.quantizations().values()):
        assert finer.bounds.loosest(coarser.bounds) == coarser.bounds
    fine, coarse = (quantize.quantization(n).bounds for n in ("float32", "dynamic_wi4_afp32"))
    assert coarse.loosest(fine) == coarse
    odd = fine.replace({"max_error": 9.0})
    assert odd.as_dict() == {**fine.as_dict(), "max_error": 9.0}
    assert odd.loosest(coarse) == coarse.replace({"max_error": 9.0})
    with pytest.raises(errors.ConfigError, match="Did you mean 'max_error'"):
        fine.replace({"max_err": 1.0})
