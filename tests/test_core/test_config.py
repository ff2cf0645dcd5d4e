"""Recipes: every fault at once, the nearest key, assignments from the command line."""

import copy
import json

import pytest
import yaml

from tfdistill import config, errors
from tfdistill.config import recipe_files

MINIMAL = {
    "name": "toy",
    "data": {"task": "sst2", "dir": "data"},
    "teacher": "somewhere/bert",
    "student": "bert_tiny",
    "stages": {
        "states": {"kind": "intermediate", "learning_rate": 1e-4},
        "logits": {"kind": "prediction"},
    },
    "variants": {"full": {"stages": ["states", "logits"]}},
}


def recipe(**changes):
    return config.parse_recipe({**copy.deepcopy(MINIMAL), **changes})


def faults_of(**changes):
    with pytest.raises(errors.ConfigError) as caught:
        recipe(**changes)
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    return str(path)


# What is read.


def test_short_forms_and_defaults():
    short = recipe()
    assert short.teacher.source == "somewhere/bert"
    assert short.student.preset == "bert_tiny"
    assert short.teacher.finetune is None
    assert (short.seeds, short.export_lengths) == ((1,), (32, 64, 128))
    # The task stage of the paper: per tensor, decay 0.01, both with or without the long form.
    assert short == recipe(teacher={"source": "somewhere/bert"}, student={"preset": "bert_tiny"})
    states = short.stages["states"]
    assert (states.learning_rate, states.clip, states.weight_decay) == (1e-4, "per_tensor", 0.01)


@pytest.mark.parametrize(
    ("max_length", "lengths"),
    [(None, (32, 64, 128)), (24, (24,)), (64, (32, 64)), (384, (32, 64, 128, 384))],
)
def test_a_file_is_as_long_as_what_its_model_was_trained_on(max_length, lengths):
    assert config.usual_lengths(max_length) == lengths
    if max_length is not None:
        data = {**MINIMAL["data"], "max_length": max_length}
        assert recipe(data=data).export_lengths == lengths
        assert recipe(data=data, export={"lengths": [8, 16]}).export_lengths == (8, 16)


def test_what_is_written_is_read_back_equal(tmp_path):
    full = recipe(
        teacher={"source": "a b: c", "finetune": {"epochs": 2}},
        seeds=[3, 1, 2],
        stages={
            "states": {
                "kind": "intermediate",
                "layer_map": [1, 0],
                "layer_weights": {"hidden": [0.5, 2]},
                "loss_weights": {"attention": 0},
            },
            "logits": {"kind": "prediction", "temperature": 2},
            "general": {"kind": "general", "corpus": ["é.txt"]},
        },
    )
    path = tmp_path / "again.yaml"
    path.write_text(config.dump_recipe(full), encoding="utf-8")
    assert config.load_recipe(str(path)) == full
    assert config.load_recipe(str(path)).stages["states"].layer_map == (1, 0)


def published_start(name):
    if name == "distilbert_6l_squad":
        return "distilbert-base-uncased"
    if name in ("pkd", "distilbert_6l"):
        return "layers"
    if name == "demo":
        return "auto"
    published = ("bilstm_", "minilm_", "pd", "tinybert_4l", "tinybert_6l", "tinybert_general")
    return "random" if name.startswith(published) else "teacher"


@pytest.mark.parametrize("name", config.recipes())
def test_every_recipe_that_comes_with_us_is_valid_and_names_its_own_start(name, tmp_path):
    recipe = config.load_recipe(name)
    assert recipe.name == name
    path = tmp_path / "again.yaml"
    path.write_text(config.dump_recipe(recipe), encoding="utf-8")
    assert config.load_recipe(str(path)) == recipe
    student = recipe_files._read_recipe(config.recipes()[name])["student"]
    assert student["initialise"] == published_start(name)


# What is refused.


def test_faults_are_said_in_words_of_recipes_once_each():
    message = faults_of(
        data=3,
        seeds=["a"],
        stages={
            "states": {"kind": "intermediate", "layer_map": "middle"},
            "logits": {"kind": "prediction", "epochs": "many", "warmup": 1, "keep_best": 2},
        },
        variants={"full": {"stages": []}},
        export={"lengths": [0], "quantize": "int7"},
        benchmark={"threads": [-1]},
    )
    assert message.splitlines()[1:-1] == [
        "  - data: expected keys with values, received 3.",
        "  - stages.states.layer_map: expected 'uniform', 'top' or 'bottom', received 'middle'.",
        "  - stages.states.layer_map: expected a list such as [a, b], received 'middle'.",
        "  - stages.logits.warmup: expected less than 1.0, received 1.",
        "  - stages.logits.epochs: expected a whole number, received 'many'.",
        "  - stages.logits.keep_best: expected true or false, received 2.",
        "  - variants.full.stages: expected at least 1 of them, received [].",
        "  - seeds.0: expected a whole number, received 'a'.",
        "  - export.quantize: expected "
        "'float32', 'float16', 'weight_only_wi8_afp32', 'dynamic_wi8_afp32', 'static_wi8_ai8', "
        "'dynamic_wi4_afp32_block32', "
        "'dynamic_wi4_afp32_block64', 'dynamic_wi4_afp32', 'int8' or 'int4', received 'int7'.",
        "  - export.lengths.0: expected at least 2, received 0.",
    ]
    assert message.endswith("  - benchmark.threads.0: expected more than 0, received -1.")


def test_short_names_of_quantizations_are_kept_in_full_and_gone_ones_refused_with_another():
    int8, int4 = "dynamic_wi8_afp32", "dynamic_wi4_afp32"
    assignments = (
        *("export.quantize=int4", "export.also_quantize=[int8, float16, int4]"),
        *("export.fallback=[int8]", "export.teacher_quantize=int8"),
    )
    exported = config.load_recipe("demo", assignments).export
    assert (exported.quantize, exported.teacher_quantize) == (int4, int8)
    assert (exported.also_quantize, exported.fallback) == ((int8, "float16", int4), (int8,))
    exported = config.load_recipe("demo", ["export.variants={gpu: int4}"]).export
    assert exported.variants == {"gpu": int4}
    assert "int8" not in config.dump_recipe(config.load_recipe("demo", ["export.quantize=int8"]))
    for name in ("static_wi8_ai16", "static_wi8_ai8_integer_only"):
        message = faults_of(export={"quantize": name, "also_quantize": ["int8", name]})
        for key in ("quantize", "also_quantize.1"):
            assert f"export.{key}: expected a quantization that this version offers" in message
        assert message.count(f"received {name!r}. Take static_wi8_ai8") == 2


def test_a_retired_key_is_dropped_where_it_holds_its_default_and_refused_otherwise(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(recipe_files, "_RETIRED", {"data.rows": None, "export.gone.key": 3})
    values = {**copy.deepcopy(MINIMAL), "export": {"quantize": "float32", "gone": None}}
    recipe = config.parse_recipe({**values, "export": {"quantize": "float32"}})
    path = tmp_path / "old.yaml"
    for data, exported, fault in (
        ({"rows": None}, {}, None),
        ({}, {"gone": {"key": 4}}, "export.gone: unknown key"),
        ({"rows": 5}, {}, "data.rows: unknown key"),
        ({"row": None}, {}, "data.row: unknown key"),
    ):
        old = {**MINIMAL, "data": {**MINIMAL["data"], **data}}
        path.write_text(yaml.safe_dump({**old, "export": {"quantize": "float32", **exported}}))
        if fault is None:
            assert config.load_recipe(str(path)) == recipe
            continue
        with pytest.raises(errors.ConfigError, match=fault):
            config.load_recipe(str(path))


def test_stages_are_checked_against_variants_and_the_task():
    assert "learns a task, and data.task is null" in faults_of(data={"task": None})
    message = faults_of(variants={"a": {"stages": ["logit"]}, "b": {"stages": ["states"]}})
    assert "variants.a.stages: no stage 'logit'. Did you mean 'logits'?" in message
    assert "variants.b.stages: ends in a intermediate stage" in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n- b\n", "expected a mapping, received list"),
        ("", "expected a mapping, received NoneType"),
        ("a: [1,\n", "expected YAML in UTF-8"),
        ("a: !!python/object/apply:os.getcwd []\n", "expected YAML in UTF-8"),
        (b"name: \xff\xfe\n", "expected YAML in UTF-8"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path, text, says):
    path = tmp_path / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(errors.ConfigError) as caught:
        config.load_recipe(str(path))
    assert says in str(caught.value)
    assert "bad.yaml" in str(caught.value)


def test_an_unknown_recipe_names_the_nearest_and_the_command():
    with pytest.raises(errors.ConfigError) as caught:
        config.load_recipe("dmeo")
    assert "Did you mean 'demo'?" in str(caught.value)
    assert "tfdistill recipes ls" in str(caught.value)
    with pytest.raises(errors.ConfigError):
        config.load_recipe("nowhere/toy.yaml")


# Assignments.


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("data.dir=a=b", "a=b"),
        ("data.dir=", None),
        ("data.lower_case=false", False),
        ("data.labels=[bad, good]", ("bad", "good")),
        ("seeds=[1,2,3]", (1, 2, 3)),
        # YAML reads 5e-5, without a point, as text.
        ("stages.states.learning_rate=5e-5", 5e-5),
        ("stages.states.layer_map=[0, 3]", (0, 3)),
        ("stages.states.loss_weights={attention: 0}", {"attention": 0.0}),
        ("teacher.source=elsewhere/bert", "elsewhere/bert"),
    ],
)
def test_an_assignment_changes_one_value(path, assignment, value):
    def read(recipe):
        for key in assignment.split("=")[0].split("."):
            recipe = recipe[key] if isinstance(recipe, dict) else getattr(recipe, key)
        return recipe

    assert read(config.load_recipe(path, [assignment])) == value
    assert read(config.load_recipe(path)) != value


def test_assignments_keep_what_a_short_form_said_and_can_add_sections(path):
    changed = config.load_recipe(path, ["teacher.dtype=bfloat16", "student.num_layers=3"])
    assert (changed.teacher.source, changed.teacher.dtype) == ("somewhere/bert", "bfloat16")
    assert (changed.student.preset, changed.student.num_layers) == ("bert_tiny", 3)
    # And the short form keeps what assignments before it said.
    changed = config.load_recipe(path, ["teacher.dtype=bfloat16", "teacher=elsewhere/bert"])
    assert (changed.teacher.source, changed.teacher.dtype) == ("elsewhere/bert", "bfloat16")
    changed = config.load_recipe(
        path,
        [
            "teacher.finetune.epochs=7",
            "stages.gold.kind=labels",
            "variants.alone.stages=[gold]",
            "benchmark.runs=3",
        ],
    )
    assert changed.teacher.finetune.epochs == 7
    assert changed.variants["alone"].stages == ("gold",)
    assert changed.benchmark.runs == 3


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("seeds", "--set: expected dotted.key=value, received 'seeds'"),
        ("=3", "expected dotted.key=value"),
        ("seeds=[1", "--set seeds: expected a YAML value"),
        ("data.drr=x", "data.drr: unknown key. Did you mean 'dir'?"),
        ("sedes=[1]", "sedes: unknown key. Did you mean 'seeds'?"),
        ("stages.states.epochs=many", "stages.states.epochs"),
        ("stages.states.epochs=0", "stages.states.epochs"),
        ("teacher.finetune.epoch=3", "teacher.finetune.epoch: unknown key. Did you mean 'epochs'?"),
    ],
)
def test_an_assignment_that_does_not_fit_is_refused(path, assignment, says):
    with pytest.raises(errors.ConfigError) as caught:
        config.load_recipe(path, [assignment])
    assert says in str(caught.value)


# What a run needs.


def test_missing_inputs_are_listed_with_their_remedy(tmp_path):
    general = {"kind": "general"}
    needy = recipe(
        data={"task": "sst2", "vocab": str(tmp_path / "vocab.txt")},
        stages={**MINIMAL["stages"], "general": general, "unused": general},
        variants={"full": {"stages": ["general", "states", "logits"]}},
    )
    missing = config.missing_inputs(needy)
    assert [fault.split(":")[0] for fault in missing] == [
        "data.dir",
        "data.vocab",
        "stages.general.corpus",  # not that of the stage that no variant goes through
    ]
    assert "--set data.dir=FOLDER" in missing[0]
    assert "--set stages.general.corpus=[FILE,...]" in missing[2]
    for name in ("vocab.txt", "a.txt"):
        (tmp_path / name).write_text("")
    general["corpus"] = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    settled = recipe(
        data={"task": "sst2", "dir": str(tmp_path), "vocab": str(tmp_path / "vocab.txt")},
        stages={**MINIMAL["stages"], "general": general},
        variants={"full": {"stages": ["general", "states", "logits"]}},
    )
    (fault,) = config.missing_inputs(settled)
    assert fault.startswith("stages.general.corpus:") and "b.txt is not there" in fault


def test_a_preset_as_teacher_brings_no_vocabulary_and_cannot_teach_words(tmp_path):
    bare = recipe(data={"task": "sst2", "dir": str(tmp_path)}, teacher="preset:bert_tiny")
    (fault,) = config.missing_inputs(bare)
    assert fault.startswith("data.vocab:") and "train:SIZE" in fault
    values = copy.deepcopy(MINIMAL)
    values["teacher"] = "preset:bert_tiny"
    values["stages"]["words"] = {"kind": "distilbert", "corpus": []}
    values["variants"] = {"full": {"stages": ["words", "logits"]}}
    faults = config.missing_inputs(config.parse_recipe(values))
    assert any("pre-trained" in fault and "words" in fault for fault in faults)


def test_a_recipe_keeps_what_it_does_not_name_of_another_in_its_folder_alone(tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text(yaml.safe_dump(MINIMAL), encoding="utf-8")
    above = tmp_path / "above.yaml"
    above.write_text(
        "extends: base.yaml\nname: above\ndata: {max_length: 16}\nteacher: {dtype: bfloat16}\n",
        encoding="utf-8",
    )
    recipe, below = config.load_recipe(str(above)), config.load_recipe(str(base))
    assert (recipe.name, recipe.data.max_length, recipe.teacher.dtype) == ("above", 16, "bfloat16")
    assert recipe.teacher.source == below.teacher.source
    assert recipe.data.task == below.data.task
    assert recipe.stages == below.stages
    path = tmp_path / "loop.yaml"
    path.write_text("extends: loop.yaml\nname: loop\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match="ends the chain"):
        config.load_recipe(str(path))
    path.write_text("extends: demoo\nname: loop\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match="demo"):
        config.load_recipe(str(path))
    (tmp_path / "inner").mkdir()
    (tmp_path / "base.yaml").write_text(config.find_recipe("demo").read_text())
    (tmp_path / "inner" / "mine.yaml").write_text("extends: ../base.yaml\n")
    with pytest.raises(errors.ConfigError):
        config.load_recipe(str(tmp_path / "inner" / "mine.yaml"))
    (tmp_path / "mine.yaml").write_text("extends: base.yaml\n")
    assert config.load_recipe(str(tmp_path / "mine.yaml")) == config.load_recipe("demo")


def test_the_student_without_a_teacher_is_added_once_and_learns_as_long_at_the_same_rate():
    values = copy.deepcopy(MINIMAL)
    values["stages"] = {"answers": {"kind": "prediction", "epochs": 7, "learning_rate": 2e-4}}
    values["variants"] = {"full": {"stages": ["answers"]}}
    values["student"] = {"preset": "tinybert_4l_312d", "initialise": "teacher"}
    recipe = config.with_baseline(config.parse_recipe(values))
    assert list(recipe.variants) == ["no_teacher", "full"]
    baseline = recipe.stages["no_teacher"]
    assert (baseline.kind, baseline.epochs, baseline.learning_rate) == ("labels", 7, 2e-4)
    assert config.with_baseline(recipe) == recipe
    values["student"]["initialise"] = "pruned"
    part = config.parse_recipe(values)
    assert config.with_baseline(part) == part.model_copy(update={"baselines": "all"})
    joint = config.new_stage(
        "joint", batch_size=16, epochs=7, min_steps=50, loss_weights={"label": 1}
    )
    alone = config.labels_alone(joint, learning_rate=3e-4, batches=120)
    assert (alone.kind, alone.epochs, alone.min_steps) == ("labels", 1, 120)
    assert (alone.batch_size, alone.learning_rate) == (16, 3e-4)
    as_long = config.labels_alone(joint, learning_rate=None)  # by the student's width
    assert (as_long.epochs, as_long.min_steps) == (7, 50)
    usual = config.labels_alone(config.new_stage("joint"), learning_rate=None)
    assert usual.min_steps == config.LEAST_STEPS


def test_inputs_that_are_needed_late_are_missed_early(tmp_path):
    values = copy.deepcopy(MINIMAL)
    values["data"] |= {"augment": {"vectors": str(tmp_path / "glove.txt")}}
    values["teacher"] = {"source": "/nowhere/teacher", "general": "./nothing"}
    values["stages"]["states"]["augmented"] = True
    faults = "\n".join(config.missing_inputs(config.parse_recipe(values)))
    for part in ("glove.txt is not there", "/nowhere/teacher is not there", "./nothing is not"):
        assert part in faults
    del values["data"]["augment"]
    faults = "\n".join(config.missing_inputs(config.parse_recipe(values)))
    assert "stages.states.augmented" in faults


@pytest.mark.parametrize("section", ["stages", "variants"])
@pytest.mark.parametrize("name", ["../../../../x", "/tmp/x", "..", "a/b", "\x1b[31m"])
def test_names_that_become_folders_lead_nowhere_else(section, name):
    values = yaml.safe_load(config.find_recipe("demo").read_text())
    first = next(iter(values[section]))
    values[section][name] = values[section][first]
    with pytest.raises(errors.ConfigError, match=rf"{section}, a name: expected one of a folder"):
        config.parse_recipe(values)


@pytest.mark.parametrize("value", [-1, float("inf"), "x", ["a"], True, {"l": None}, {"l": []}])
@pytest.mark.parametrize("section", ["stages", "variants", "data", "teacher", "seeds"])
def test_a_section_of_another_type_is_a_fault_of_the_recipe(section, value):
    values = {
        "name": "x",
        "data": {"task": "own"},
        "stages": {"l": {"kind": "logits"}},
        "variants": {"v": {"stages": ["l"]}},
    }
    with pytest.raises(errors.ConfigError):
        config.parse_recipe({**values, section: value})


def test_an_embedding_has_no_student_without_a_teacher_and_others_no_vector_size():
    values = copy.deepcopy(MINIMAL) | {
        "stages": {"only": {"kind": "embedding"}},
        "variants": {"student": {"stages": ["only"]}},
        "student": {"preset": "tinybert_4l_312d", "vector_size": 8},
        "teacher": {"source": "someone/encoder"},
        "data": {"task": "pairs", "kind": "embedding", "text_column": "a", "pair_column": "b"},
    }
    recipe = config.parse_recipe(values)
    with pytest.raises(errors.ConfigError, match="sentence vectors, which come from a teacher"):
        config.with_baseline(recipe)
    values = copy.deepcopy(MINIMAL)
    values["student"] = {"preset": "tinybert_4l_312d", "vector_size": 8}
    with pytest.raises(errors.ConfigError, match=r"vector_size: expected data\.kind embedding"):
        config.parse_recipe(values)


@pytest.mark.parametrize(
    ("positions", "length"), [(64, 64), (512, 128), (True, 128), ("64", 128), (-3, 128)]
)
def test_texts_have_by_default_as_many_tokens_as_the_model_has_positions(
    tmp_path, positions, length
):
    (tmp_path / "hf").mkdir()
    raw = {"model_type": "bert", "max_position_embeddings": positions}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    assert config.usual_max_length(str(tmp_path / "hf")) == length
    assert config.usual_max_length(str(tmp_path)) == length
    assert config.usual_max_length("org/name") == config.usual_max_length(None) == 128


@pytest.mark.parametrize(("suffix", "split_by_run"), [("csv", 1), ("jsonl", 1), ("csv", 0)])
def test_a_run_reads_what_it_split_from_its_own_folder(suffix, split_by_run, tmp_path, monkeypatch):
    named = tmp_path / "runs" / "data"  # of another project, where the run is named from elsewhere
    run = tmp_path / "moved"
    for folder in (named, run / "data"):
        folder.mkdir(parents=True)
        for file in (f"train.{suffix}", f"dev.{suffix}", "promise.csv", "other.txt")[
            0 if split_by_run else 1 :
        ]:
            (folder / file).write_text("text,label\n")
    recipe = config.load_recipe("demo")
    places = {"dir": "runs/data", "promise_on": "runs/data/promise.csv"}
    places["other"] = "runs/data/other.txt"
    section = recipe.data.model_copy(update=places)
    text = recipe_files.dump_recipe(recipe.model_copy(update={"data": section}))
    (run / "recipe.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    data = config.data_of_run(str(run))
    inside = {"dir": str(run / "data"), "promise_on": str(run / "data" / "promise.csv")}
    inside["other"] = str(run / "data" / "other.txt")
    assert {name: getattr(data, name) for name in places} == (inside if split_by_run else places)
