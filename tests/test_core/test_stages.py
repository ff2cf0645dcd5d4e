"""Stages: each kind has the options that its method reads, and its distiller's defaults."""

import inspect

import pytest

from tfdistill import config, errors
from tfdistill.losses import methods
from tfdistill.run import lessons

KINDS = tuple(config.STAGES)
# Read by whatever trains: the schedule, the number and the size of the batches.
EVERYWHERE = set(config.Stage.model_fields).difference(*(s.keys for s in config.STAGES.values()))
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
    embeds = stage.get("kind") == "embedding"
    data = {"kind": "embedding"} if embeds else {"augment": {"copies": 2}}
    values = {
        "name": "toy",
        "data": {"task": "stsb" if embeds else "sst2", **data},
        "teacher": "bert",
        "student": "bert_tiny",
        "stages": {"it": stage, "gold": {"kind": "labels"}},
        "variants": {"full": {"stages": ["it"] if embeds else ["it", "gold"]}},
    }
    return config.parse_recipe(values)


def faults_of(stage):
    with pytest.raises(errors.ConfigError) as caught:
        recipe(stage)
    return [line.removeprefix("  - ") for line in str(caught.value).splitlines()[1:]]


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_is_taken_by_the_kinds_that_read_it_and_refused_by_the_others(kind):
    reads = OTHER_VALUES.keys() & {*config.STAGES[kind].keys}
    stage = recipe({"kind": kind, **{key: OTHER_VALUES[key] for key in reads}}).stages["it"]
    for key in reads:
        value = getattr(stage, key)
        assert (list(value) if isinstance(value, tuple) else value) == OTHER_VALUES[key]
    others = {key: value for key, value in OTHER_VALUES.items() if key not in reads}
    faults = faults_of({"kind": kind, **others})
    assert sorted(fault.partition(" in a stage")[0] for fault in faults) == sorted(
        f"stages.it.{key}: expected none" for key in others
    )


def test_faults_of_a_stage_are_found_beside_a_kind_that_is_unknown():
    faults = faults_of({"kind": "middle", "warmup": 1.0, "layer_map": "skip", "loss_weigths": {}})
    assert [fault.split(",")[0] for fault in faults] == [
        "stages.it.warmup: expected less than 1.0",
        "stages.it.kind: expected 'general'",
        "stages.it.loss_weigths: unknown key. Did you mean 'loss_weights'?",
    ]


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ({"epochs": 2}, "kind: missing. It is required"),
        (
            {"kind": "labels", "learning_rate": float("inf")},
            "learning_rate: expected a finite number, received inf.",
        ),
        (
            {"kind": "labels", "optimizer": "lamb", "bias_correction": False},
            "bias_correction: expected true for the optimizer lamb, received False.",
        ),
        (
            {"kind": "labels", "temperature": 3},  # with the kinds that read it
            "temperature: expected none in a stage of kind labels, which does not read it, received"
            " 3. Those that do: prediction, logits, joint, embedding, patient, distilbert",
        ),
    ],
)
def test_a_fault_of_an_option_is_said(stage, says):
    (fault,) = faults_of(stage)
    assert fault == f"stages.it.{says}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_is_written_with_the_options_of_its_kind_and_read_back(kind):
    written_out = recipe({"kind": kind}).stages["it"].model_dump(mode="json")

    assert set(written_out) == EVERYWHERE | set(config.STAGES[kind].keys)
    assert recipe(written_out) == recipe({"kind": kind})


@pytest.mark.parametrize("kind", lessons.METHODS)
def test_keys_of_a_kind_that_its_method_reads_have_the_defaults_of_the_method(kind):
    parameters = inspect.signature(lessons.METHODS[kind]).parameters
    stage, compared = config.new_stage(kind), set()
    for key in config.STAGES[kind].keys:
        name = lessons.ARGUMENTS.get(key, key)
        if name in parameters:
            value, default = getattr(stage, key), parameters[name].default
            # Of a joint stage None: 1, unless the teacher's answers are nearly uniform.
            assert (
                value == default
                or not (value or default)
                or (kind, key, value)
                == (
                    *("joint", "temperature"),
                    None,
                )
            )
            compared.add(key)
    assert compared >= {"temperature", "layer_map", "reduction"} & {*config.STAGES[kind].keys}


@pytest.mark.parametrize(
    ("stage", "on_corpus", "trains_classifier"),
    [
        ({"kind": "general"}, True, False),
        ({"kind": "mlm"}, True, False),
        ({"kind": "intermediate"}, False, False),
        ({"kind": "patient"}, False, True),
        ({"kind": "relations"}, False, False),
        ({"kind": "relations", "reads": "corpus"}, True, False),
        ({"kind": "combination"}, False, True),
        ({"kind": "combination", "reads": "corpus"}, True, False),
    ],
)
def test_what_a_stage_reads_and_trains(stage, on_corpus, trains_classifier):
    read = recipe(stage).stages["it"]
    assert (read.on_corpus, read.trains_classifier) == (on_corpus, trains_classifier)


def test_every_option_is_read_by_a_kind_and_says_nothing_where_it_is_not():
    options = set(config.Stage.model_fields)
    for kind in config.STAGES.values():
        assert {*kind.keys, *kind.defaults, *kind.types} <= options
        assert {*kind.defaults, *kind.types} <= {*kind.keys, *EVERYWHERE}
    assert {"epochs", "learning_rate", "loss_weights"} <= EVERYWHERE
    stage = config.new_stage("mlm")
    assert (stage.compress, stage.augmented, stage.min_steps) == (None, False, None)
    assert "compress" not in stage.model_dump()
    assert stage.noisy_share == stage.noisy_pairs == 0


def test_weights_are_those_of_the_losses_of_the_kind_and_of_a_combination_by_name():
    (fault,) = faults_of({"kind": "general", "loss_weights": {"atention": 0}})
    assert fault.startswith("stages.it.loss_weights: expected losses of a stage of kind general")
    assert "Did you mean 'attention'?" in fault
    mixed = {"kind": "combination", "losses": {"soft": {"loss": "KLDivergence"}}}
    assert recipe({**mixed, "loss_weights": {"soft": 2}}).stages["it"].loss_weights == {"soft": 2}
    (fault,) = faults_of({**mixed, "loss_weights": {"logits": 2}})
    assert "received 'logits'" in fault
    losses = {"attention": {"loss": "HiddenStateMSE"}}
    stage = config.new_stage("combination", losses=losses, loss_weights={"attention": 2})
    assert stage.weight_of("attention") == 0
    weighed = config.new_stage("general", loss_weights={"attention": 2})
    assert (weighed.weight_of("attention"), weighed.weight_of("hidden")) == (2, 1)
    assert weighed.weight_of("label") == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "combination"])
def test_the_losses_of_a_kind_and_their_weights_are_those_of_its_method(kind):
    losses = {
        **{stage: methods.tinybert(stage) for stage in ("general", "intermediate", "prediction")},
        "labels": methods.labels(),
        "logits": methods.hinton(),
        "joint": methods.joint(),
        "embedding": methods.embedding(),
        "patient": methods.patient(),
        "relations": methods.minilm(),
        "mlm": methods.masked_words(next_sentence=True),
        "distilbert": methods.distilbert(),
        "mobilebert": methods.mobilebert(),
    }
    weights = {name: loss.weight for name, loss in losses[kind].items()}
    assert config.STAGES[kind].losses == weights
