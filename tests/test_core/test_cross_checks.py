import pytest

from tfdistill import config, errors


def values(**changes):
    recipe = {
        "name": "near",
        "data": {"task": "stsb", "kind": "embedding"},
        "teacher": {"source": "./teacher"},
        "student": {"preset": "pruned:layers=2"},
        "stages": {"near": {"kind": "embedding"}, "layers": {"kind": "intermediate"}},
        "variants": {"one": {"stages": ["layers", "near"]}},
    }
    for key, value in changes.items():
        section, name = key.split("__")
        recipe[section] = {**recipe[section], name: value}
    return recipe


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data__kind": None}, "stages.near, kind embedding: expected data.kind embedding"),
        ({"stages__near": {"kind": "logits"}}, "stages.near, kind, for an embedding"),
        ({"variants__one": {"stages": ["near", "layers"]}}, "ends in a intermediate|the last one"),
        ({"stages__near": {"kind": "embedding", "compress": {"method": "prune"}}}, "near.compress"),
        ({"teacher__source": "preset:bert_tiny"}, "a sentence encoder that is trained already"),
        ({"teacher__finetune": {"epochs": 1}}, "received finetune"),
        ({"student__preset": "static"}, "student.preset of an embedding"),
        ({"student__preset": "static:width=8"}, "student.preset of an embedding"),
        ({"student__keep_head": True}, "student.keep_head of an embedding"),
    ],
)
def test_what_an_embedding_cannot_have_is_refused_by_name(changes, expected):
    with pytest.raises(ValueError, match=expected):
        config.Recipe.model_validate(values(**changes))


def test_the_baseline_without_a_teacher_is_refused():
    with pytest.raises(ValueError, match="baselines of an embedding"):
        config.Recipe.model_validate({**values(), "baselines": "all"})


def test_faults_inside_a_section_hide_none_between_the_valid_ones():
    wrong = values(stages__far={"kind": "logits"}, variants__two={"stages": ["far", "gone"]})
    wrong["teacher"] = {"source": "preset:bert_tiny", "dtype": "float8"}
    wrong["stages"]["layers"] = {"kind": "intermediate", "epochs": 0}
    wrong["student"] = "static"
    with pytest.raises(errors.ConfigError) as caught:
        config.parse_recipe(wrong)
    faults = str(caught.value).splitlines()[1:]
    expected = (
        *("teacher.dtype: expected", "stages.layers.epochs: expected more than 0"),
        "variants.two.stages: no stage 'gone'",
        "stages.far, kind, for an embedding: expected",
        "student.preset of an embedding: expected",
    )
    assert len(faults) == len(expected)
    for fault, start in zip(faults, expected, strict=True):
        assert fault.startswith(f"  - {start}")


@pytest.mark.parametrize(("section", "value"), [("stages", 3), ("variants", None), ("data", "x")])
def test_a_section_that_is_none_stops_no_other_check(section, value):
    with pytest.raises(errors.ConfigError, match=f"{section}: expected keys with values"):
        config.parse_recipe({**values(), section: value})
