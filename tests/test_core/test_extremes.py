"""What a run would refuse after its training is refused when the recipe is checked."""

import copy
import random
import types
import typing

import pytest

from tfdistill import cli, config, errors
from tfdistill.run import shapes

TOY = {
    "name": "toy",
    "data": {"task": "assistant", "max_length": 24, "vocab": "train:400"},
    "teacher": {"source": "preset:bert_tiny", "finetune": {"epochs": 1}},
    "student": {"preset": "bert_tiny", "num_layers": 1},
    "stages": {
        "general": {"kind": "general"},
        "patient": {"kind": "patient", "layer_map": [0]},
        "relations": {"kind": "relations"},
        "prediction": {"kind": "prediction"},
        "own": {"kind": "combination", "losses": {"logits": {"loss": "KLDivergence"}}},
    },
    "variants": {
        "full": {"stages": ["general", "prediction"]},
        "other": {"stages": ["relations", "patient", "own"]},
    },
}
HUGE = 10**7
LATE = [  # override, what is said
    ("export.lengths=[1]", "export.lengths.0: expected at least 2"),
    ("export.lengths=[32,32]", "export.lengths: expected each value once"),
    (f"export.lengths=[32,{HUGE}]", "export.lengths.1: expected at most 512"),
    ("seeds=[-1]", "seeds.0: expected at least 0"),
    (f"seeds=[{2**32}]", "seeds.0: expected at most 4294967295"),
    ("seeds=[1,1]", "seeds: expected each value once"),
    ("data.split_seed=-1", "data.split_seed: expected at least 0"),
    ("data.augment={seed: -1}", "data.augment.seed: expected at least 0"),
    ("data.vocab=train:few", "data.vocab: expected train:SIZE"),
    ("data.encoding=base64", "data.encoding: expected an encoding of text"),
    ("data.label_separator=", "data.label_separator"),
    ("benchmark.threads=[1,1]", "benchmark.threads: expected each value once"),
    (f"benchmark.threads=[{HUGE}]", "benchmark.threads.0: expected at most 256"),
    ("benchmark.min_seconds=1.0e+300", "benchmark.min_seconds: expected at most 3600"),
    ("export.variants={gpu: static_wi8_ai8}", "export.variants: quantize for gpu"),
    (f"student.num_layers={10**18}", "student.num_layers: expected at most"),
    ("student.initialise=layers", "student.teacher_layers: expected the teacher's layers"),
    ("student={preset: bert_tiny, initialise: layers, teacher_layers: [7,8]}", "student: "),
    ("student={preset: bert_tiny, initialise: pruned, hidden_size: 512}", "student: "),
    ("stages.prediction.learning_rate=1.0e+200", "learning_rate: expected at most 10"),
    ("stages.prediction.clip_norm=1.0e+300", "clip_norm: expected 0 or a number from 1e-30"),
    ("stages.prediction.temperature=1.0e-300", "temperature: expected 0 or a number from"),
    ("stages.prediction.beta_2=0.99999999", "beta_2: expected at most 0.999999"),
    ("stages.prediction.epsilon=1.0e-20", "epsilon: expected at least 1e-12"),
    ("stages.prediction.end_learning_rate=1", "end_learning_rate: expected at most the learning"),
    (f"stages.prediction.batch_size={10**18}", "batch_size: expected at most"),
    (f"stages.prediction.min_steps={10**18}", "min_steps: expected at most"),
    ("stages.prediction.max_length=23", "stages.prediction.max_length: expected at least data.max"),
    ("stages.prediction.max_length=24", None),
    ("stages.prediction.token_budget=23", "stages.prediction.token_budget: expected at least"),
    ("teacher.finetune.token_budget=5", "teacher.finetune.token_budget: expected at least"),
    ("stages.prediction.loss_weights={logits: -1}", "loss_weights.logits: expected at least 0"),
    ("stages.prediction.loss_weights={logits: 0}", "loss_weights: expected at least one above 0"),
    ("stages.general.layer_map=[0,1,2]", "stages.general."),
    ("stages.general.layer_map=[9]", "stages.general."),
    ("stages.general.layer_weights={hidden: [1,1]}", "stages.general."),
    ("stages.general.max_length=512", None),
    ("stages.patient.layer_map=[3]", "stages.patient."),
    ("stages.relations.teacher_layer=5", "stages.relations."),
    ("stages.relations.relation_heads=7", "stages.relations."),
    ("stages.own.losses={a: {loss: HiddenStateMSE, layers: [9]}}", "stages.own."),
    ("stages.prediction.compress={method: prune, layers: []}", "compress.layers: expected at"),
    (f"variants.long={{stages: [{', '.join(['prediction'] * 30)}]}}", "bytes together"),
    ("student.vector_size=8", "student.vector_size"),
    ("data={task: sst2, dir: ., max_length: 24, metrics: [accurat]}", "Did you mean 'accuracy'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "toy.yaml"
    path.write_text(config.dump_recipe(config.parse_recipe(TOY)))
    return str(path)


@pytest.mark.parametrize(("override", "said"), LATE, ids=[override[:60] for override, _ in LATE])
def test_check_and_dry_run_refuse_what_a_run_would_refuse_later(
    toy, override, said, tmp_path, capsys
):
    out = tmp_path / "out"
    checked = cli.main(["recipes", "check", toy, "--set", override])
    message = capsys.readouterr().err
    planned = cli.main(["run", toy, "--set", override, "--out", str(out), "--dry-run"])
    assert (checked, planned) == ((0, 0) if said is None else (2, 2)), message
    assert said is None or said in message
    assert not out.exists()


# Drawn recipes: valid types, extreme values.

WHOLE = (-1, 0, 1, 2, 3, 7, 513, 2**16 + 1, 2**31, 2**32, 10**18)
NUMBERS = (-1.0, 0.0, 1e-300, 1e-20, 1e-7, 0.5, 0.99999999, 1.0, 11.0, 1e300)
TEXTS = ("", "x", "a/b", "../x", "train:5", "train:x", "x" * 300, "utf-8", "base64", "preset:no")


def drawn(kind, rng):
    """A value of a type of the schema, often at its limits."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return drawn(parts[0], rng)
    if origin in (typing.Union, types.UnionType):
        return drawn(rng.choice([part for part in parts if part is not dict]), rng)
    if origin is typing.Literal:
        return rng.choice(parts)
    if origin is tuple:
        values = [drawn(parts[0], rng) for _ in range(rng.choice((0, 1, 2)))]
        return values * rng.choice((1, 1, 2))
    if origin is dict:
        return {rng.choice(("logits", "hidden", "x")): drawn(parts[1], rng)}
    if kind is type(None):
        return None
    choices = {int: WHOLE, float: NUMBERS, bool: (True, False), str: TEXTS}
    return rng.choice(choices.get(kind, (None,)))


def places():
    """Every option of the toy recipe: the keys on the way to it, and its type."""
    sections = {
        ("data",): config.DataConfig,
        ("teacher",): config.TeacherConfig,
        ("teacher", "finetune"): config.FineTuneConfig,
        ("student",): config.StudentConfig,
        ("export",): config.ExportConfig,
        ("benchmark",): config.BenchmarkConfig,
        **{("stages", n): config.STAGE_SECTIONS[s["kind"]] for n, s in TOY["stages"].items()},
    }
    yield ("seeds",), tuple[int, ...]
    for path, section in sections.items():
        for name, field in section.model_fields.items():
            if not field.exclude and name != "kind":
                yield (*path, name), field.annotation


def recipe_drawn(rng, changes):
    """The toy recipe with some options changed, as plain values."""
    values = copy.deepcopy(TOY)
    for path, kind in rng.sample(sorted(places(), key=str), changes):
        section = values
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = drawn(kind, rng)
    return values


def build_what_a_run_builds(recipe):
    """What a run makes of the sections long after it began, without data and weights."""
    import tf_keras as keras

    from export.model import signature
    from tfdistill import benchmark
    from tfdistill.training import optimizers

    for seed in recipe.seeds:
        keras.utils.set_random_seed(seed)
    if recipe.teacher.finetune is not None:
        optimizers.build(recipe.teacher.finetune, 10)
    for stage in recipe.used_stages.values():
        if stage.learning_rate is not None:
            optimizers.build(stage, 10)
    signature.check_lengths(recipe.export_lengths, 512)
    benchmark.Settings(**recipe.benchmark.model_dump())
    "".encode(recipe.data.encoding)


@pytest.mark.slow
def test_what_the_check_lets_pass_can_be_built():
    rng, valid = random.Random(1), 0
    for _ in range(400):
        values = recipe_drawn(rng, rng.choice((1, 1, 2)))
        try:
            recipe = config.parse_recipe(values)
            faults = shapes.shape_faults(recipe)
        except errors.ConfigError:
            continue
        if faults:
            continue
        valid += 1
        assert config.parse_recipe(recipe.model_dump()) == recipe
        build_what_a_run_builds(recipe)
    assert valid > 100
