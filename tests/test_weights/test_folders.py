"""Folders as they are found: wrappers' prefixes, leftovers, other formats, contradictions."""

import json
import shutil

import numpy as np
import pytest
import toys
from test_weights.edits import edit, edit_config

from tfdistill import cli, errors, models, weights
from tfdistill.weights import checkpoint

FEATURES = toys.features((5, 3, 6, 4))


@pytest.fixture(scope="module")  # no test changes it
def model():
    return toys.classifier(toys.SHALLOW_STUDENT, 2, seed=3)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "hf"
    return weights.save_hf(model, place, labels=["bad", "good"])


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved model, to be changed."""
    return shutil.copytree(saved, tmp_path / "hf")


def renamed(rule):
    return lambda tensors: {rule(key): value for key, value in tensors.items()}


@pytest.mark.parametrize(
    ("rule", "prefix"),
    [
        (lambda key: f"_orig_mod.{key}", "prefix _orig_mod."),
        (lambda key: f"module._orig_mod.{key}", "prefix module."),
        (lambda key: f"_orig_mod.module.{key}", "prefix module."),
        (lambda key: f"encoder.{key}", "prefix encoder."),
        (lambda key: f"student.{key}", "prefix student."),
        (lambda key: key.replace("bert.", "bert._orig_mod.", 1), "prefix _orig_mod."),
    ],
)
def test_the_prefix_of_a_wrapper_falls_away_and_is_named(folder, model, rule, prefix):
    edit(folder, renamed(rule))
    loaded = weights.load_classifier(folder)
    np.testing.assert_array_equal(loaded.model(FEATURES), model(FEATURES))
    assert prefix in loaded.report.ignored


def test_the_body_of_a_sentence_encoder_that_was_saved_whole_is_read(folder, model):
    def body(tensors):
        return {
            key.replace("bert.", "0.auto_model.", 1): value
            for key, value in tensors.items()
            if key.startswith("bert.")
        }

    edit(folder, body)
    states = weights.load_encoder(folder)(FEATURES)["sequence_output"]
    np.testing.assert_array_equal(states, models.taps(model)(FEATURES)["sequence_output"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: {
                (f"model.{key}" if key.startswith("bert.") else key): value
                for key, value in tensors.items()
            },
            "all begin with 'model.'.*classifier.bias",
        ),
        (
            lambda tensors: {
                f"{name}.{key}": value + 0
                for name in ("teacher", "student")
                for key, value in tensors.items()
            },
            "'student.', 'teacher.'",
        ),
        (
            lambda tensors: {
                **tensors,
                "embeddings.LayerNorm.bias": tensors["bert.embeddings.LayerNorm.bias"] + 0,
            },
            "one tensor for embeddings.LayerNorm.bias, received two",
        ),
        (
            lambda tensors: {**tensors, "bert.x.lora_A.default.weight": np.zeros((2, 2), "f4")},
            r"adapter \(LoRA\).*merge_and_unload",
        ),
        (
            lambda tensors: {**tensors, "projector.weight": np.zeros((2, 2), "f4")},
            "unexpected: projector.weight.*The rest fits",
        ),
        (
            lambda tensors: {key: np.int8(np.round(v)) for key, v in tensors.items()},
            "received I8. Its weights are quantized",
        ),
        (
            lambda tensors: {**{k: np.uint8(abs(v)) for k, v in tensors.items()},
                             "bert.a.weight.absmax": np.zeros(2, "f4")},
            "U8, by bitsandbytes",
        ),
        (lambda tensors: {}, "received a file without any"),
    ],
)  # fmt: skip
def test_what_is_no_model_of_ours_is_refused_by_name(folder, change, message):
    edit(folder, change)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_classifier(folder)


def test_class_weights_of_a_loss_and_buffers_are_ignored_by_name(folder, model):
    extra = {
        "loss_fct.weight": np.ones(2, "f4"),
        "module.criterion.weight": np.ones(2, "f4"),
        "steps": np.zeros((), "i8"),
        "bert.embeddings.token_type_ids": np.zeros((1, 4), "i8"),
        "seen": np.zeros(3, bool),
    }
    edit(folder, lambda tensors: {**tensors, **extra})
    loaded = weights.load_classifier(folder)
    np.testing.assert_array_equal(loaded.model(FEATURES), model(FEATURES))
    assert {key.removeprefix("bert.") for key in extra} == set(loaded.report.ignored)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("adapter_config.json", "adapter.*merge_and_unload"),
        ("adapter_model.safetensors", "adapter.*merge_and_unload"),
        ("pytorch_model.bin", "safe_serialization=True"),
        ("pytorch_model.bin.index.json", "safe_serialization=True"),
        ("tf_model.h5", "TFAutoModel"),
        ("flax_model.msgpack", "FlaxAutoModel"),
        ("model-Q8_0.gguf", "GGUF"),
        ("model.onnx", "ONNX"),
        ("onnx/model.onnx", "ONNX"),
        ("saved_model.pb", "SavedModel"),
        ("bert_model.ckpt.index", "load_garden"),
        ("model.keras", "save_hf"),
        ("weights.h5", "save_hf"),
    ],
)
@pytest.mark.parametrize("configured", [True, False], ids=["with config.json", "without"])
def test_a_folder_of_another_format_is_named_with_the_way_out(tmp_path, folder, file, message,
                                                              configured):  # fmt: skip
    (folder / "model.safetensors").unlink()
    if not configured:
        (folder / "config.json").unlink()
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(b"x")
    with pytest.raises(errors.WeightsError, match=message):
        weights.open_checkpoint(folder)


def test_a_header_that_lies_is_refused_and_a_pointer_of_git_lfs_named(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    at = content.index(b'"data_offsets":[0,') + len(b'"data_offsets":[')
    content[at : at + 1] = b"9"
    path.write_bytes(bytes(content))
    with pytest.raises(errors.WeightsError):
        weights.open_checkpoint(folder)
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90\n"
    )
    with pytest.raises(errors.WeightsError, match="git lfs pull"):
        weights.open_checkpoint(folder)


def test_an_electra_generator_is_called_one(tmp_path):
    config = toys.SHALLOW_STUDENT.replace(family="electra", pooler=False, embedding_size=4)
    folder = weights.save_hf(models.build_encoder(config), tmp_path / "hf")
    edit(folder, lambda t: {**t, "generator_predictions.dense.bias": np.zeros(4, "f4")})
    edit_config(folder, architectures=["ElectraForMaskedLM"])
    with pytest.raises(errors.WeightsError, match="generator of an ELECTRA"):
        weights.load_masked_lm(folder)


@pytest.mark.parametrize(
    ("changes", "task_kind", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "classification", "problem_type"),
        ({"problem_type": "single_label_classification"}, "multi_label", "problem_type"),
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}},
            "classification",
            "function of its logits",
        ),
        (
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"},
            "classification",
            "function of its logits",
        ),
        ({"id2label": {"0": "x", "1": "x"}}, None, "'x' for several"),
        ({"label2id": {"bad": 1, "good": 0}}, None, "the numbers that id2label has"),
        (
            {"id2label": None, "label2id": {"bad": 0, "good": 1, "fair": 1}},
            None,
            "the numbers that id2label has",
        ),
        ({"num_labels": 5}, None, "num_labels: expected 2"),
    ],
)
def test_a_config_that_says_something_else_of_the_outputs_is_refused(
    folder, changes, task_kind, message
):
    edit_config(folder, **changes)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_model(folder, "sequence", task_kind=task_kind)


def test_what_a_config_says_of_outputs_does_not_count_where_they_are_left_out(folder):
    edit_config(folder, id2label={"0": "x", "1": "x"}, problem_type="multi_label_classification")
    new = {"num_labels": 3, "new_head": True, "task_kind": "classification"}
    assert weights.load_model(folder, "sequence", **new).report.fresh


def test_a_cross_encoder_names_its_function_elsewhere_and_its_prompt_is_refused(folder):
    settings = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(settings))
    (folder / "modules.json").write_text("[]")
    assert not weights.has_modules(folder)
    assert weights.load_model(folder, "sequence", task_kind="classification").labels
    path.write_text(
        json.dumps({**settings, "activation_fn": "torch.nn.modules.activation.Sigmoid"})
    )
    with pytest.raises(errors.WeightsError, match="function of its logits"):
        weights.load_model(folder, "sequence", task_kind="classification")
    library = {"model_type": "CrossEncoder", "default_prompt_name": "q", "prompts": {"q": ""}}
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(library))
    assert weights.load_model(folder, "sequence", task_kind="classification").labels
    path.write_text(json.dumps({**library, "prompts": {"q": "query: "}}))
    with pytest.raises(errors.WeightsError, match="no prompt, received 'query: '"):
        weights.load_model(folder, "sequence", task_kind="classification")


@pytest.mark.parametrize("where", ["config.json", "library"])
def test_a_cross_encoder_of_one_output_has_a_sigmoid_unless_it_says_otherwise(tmp_path, where):
    shape = toys.STUDENT.replace(num_layers=1)
    folder = weights.save_hf(models.build_classifier(shape, 1), tmp_path / "hf")
    score = {"task_kind": "regression"}
    assert weights.load_model(folder, "sequence", **score).model
    if where == "config.json":
        edit_config(folder, sentence_transformers={"version": "4.1.0"})
    else:
        library = {"model_type": "CrossEncoder"}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(library))
    with pytest.raises(errors.WeightsError, match="none, which is Sigmoid of one output"):
        weights.load_model(folder, "sequence", **score)
    edit_config(folder, sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")
    assert weights.load_model(folder, "sequence", **score).model


def test_architectures_that_are_no_names_are_no_crash_and_label2id_alone_names_outputs(folder):
    edit_config(folder, architectures=[1, None])
    assert weights.load_model(folder, "sequence").labels == ("bad", "good")
    edit_config(folder, id2label={"0": "LABEL_0", "1": "LABEL_1"}, label2id={"good": 0, "bad": 1})
    assert weights.load_model(folder, "sequence").labels == ("good", "bad")


@pytest.mark.parametrize(
    "of_library", [{"activation_fn": "torch.nn.modules.linear.Identity"}, {"version": "5"}]
)
def test_a_config_that_fits_is_taken(folder, of_library):
    meaningless = {"LABEL_0": 0, "LABEL_1": 1}
    single = "single_label_classification"
    edit_config(folder, label2id=meaningless, problem_type=single, sentence_transformers=of_library)
    loaded = weights.load_model(folder, "sequence", task_kind="classification")
    assert loaded.labels == ("bad", "good")


def test_a_head_with_further_parts_and_an_adapter_are_refused(folder):
    key = "classifier.norm.weight"
    edit(folder, lambda tensors: {**tensors, key: np.ones(4, "f4")})
    with pytest.raises(errors.WeightsError, match=f"received unexpected: {key}"):
        weights.load_model(folder, "sequence")
    assert key in weights.load_model(folder, "none").report.ignored
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(errors.WeightsError, match="Merge it with peft"):
        weights.open_checkpoint(folder)


def test_headers_alone_say_what_fits(folder, monkeypatch):
    opened = checkpoint.open_checkpoint(folder, shapes_only=True)
    assert weights.load_model(opened, "sequence").labels == ("bad", "good")
    edit(folder, lambda tensors: {**tensors, "projector.weight": np.zeros((2, 2), "f4")})
    opened = checkpoint.open_checkpoint(folder, shapes_only=True)
    with pytest.raises(errors.WeightsError):
        weights.load_model(opened, "sequence")


def _dry_run(folder, tmp_path, *more):
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    for name in ("train", "dev"):
        rows = [f"{name} text {i}\t{('bad', 'good')[i % 2]}\n" for i in range(40)]
        (data / f"{name}.tsv").write_text("text\tlabel\n" + "".join(rows))
    command = ["distill", "--teacher", str(folder), "--task", "films", "--data-dir", str(data)]
    command += ["--text-column", "text", "--label-column", "label", "--out", str(tmp_path / "out")]
    return cli.main([*command, "--student", "bert_tiny", "--dry-run", *more])


def test_a_dry_run_refuses_the_weights_that_the_run_refuses(folder, tmp_path, capsys):
    assert _dry_run(folder, tmp_path) == 0, capsys.readouterr().err
    edit(folder, renamed(lambda key: f"_orig_mod.{key}"))
    assert _dry_run(folder, tmp_path) == 0
    edit_config(folder, id2label={"0": "x", "1": "y"}, label2id={"x": 0, "y": 1})
    assert _dry_run(folder, tmp_path) == 1
    edit_config(folder, id2label={"0": "bad", "1": "good"}, label2id={"bad": 0, "good": 1})
    edit(folder, lambda t: {k: v for k, v in t.items() if "classifier" not in k})
    capsys.readouterr()
    assert _dry_run(folder, tmp_path) == 1
    assert "tfdistill finetune" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
