"""An option that a stage's method does not read is refused."""

import typing

import pytest

from tfdistill import config, errors
from tfdistill.config import stage_options

KINDS = typing.get_args(config.StageKind)
# Read by whatever trains: the schedule, the number and the size of the batches.
EVERYWHERE = {
    *config.OptimizerConfig.model_fields,
    *("kind", "epochs", "steps", "batch_size", "gradient_accumulation", "bucketing"),
    *("max_length", "loss_weights", "compress"),
}
OTHER_VALUES = {
    "temperature": 4.0,
    "relation_heads": 12,
    "layer_map": [1, 3],
    "augmented": True,
    "corpus": ["text.txt"],
    "earlier": "soft",
    "keep_best": False,
}


def recipe(stage):
    values = {
        "name": "toy",
        "data": {"task": "sst2", "augment": {"copies": 2}},
        "teacher": "bert",
        "student": "bert_tiny",
        "stages": {"it": stage, "gold": {"kind": "labels"}},
        "variants": {"full": {"stages": ["it", "gold"]}},
    }
    return config.parse_recipe(values)


@pytest.mark.parametrize("option", OTHER_VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_option_is_taken_by_the_kinds_that_read_it_and_refused_by_the_others(kind, option):
    stage = {"kind": kind, option: OTHER_VALUES[option]}

    if stage_options.reads(kind, option):
        value = getattr(recipe(stage).stages["it"], option)
        assert (list(value) if isinstance(value, tuple) else value) == OTHER_VALUES[option]
        return
    with pytest.raises(errors.ConfigError, match=rf"stages\.it\.{option}: expected none"):
        recipe(stage)


def test_the_error_names_the_kinds_that_read_the_option():
    with pytest.raises(errors.ConfigError, match="Stages that do: relations"):
        recipe({"kind": "labels", "relation_heads": 12})


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_that_is_written_out_is_no_fault(kind):
    written_out = recipe({"kind": kind}).stages["it"].model_dump(mode="json")

    assert recipe(written_out) == recipe({"kind": kind})


def test_for_every_option_it_is_decided_who_reads_it():
    undecided = {
        option
        for option in config.StageConfig.model_fields
        if all(stage_options.reads(kind, option) for kind in KINDS)
    }

    assert undecided <= EVERYWHERE


def test_methods_that_differ_in_one_option():
    assert stage_options.reads("logits", "scale_by_t2")
    assert not stage_options.reads("prediction", "scale_by_t2")
    assert stage_options.reads("patient", "layer_map")
    assert not stage_options.reads("patient", "projection")
    assert stage_options.reads("mlm", "mask_rate")
    assert not stage_options.reads("general", "mask_rate")
