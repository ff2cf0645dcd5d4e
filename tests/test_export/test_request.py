"""The request for an export: its options are those of `to_tflite`, its examples serve several."""

import argparse
import inspect
import shutil

import numpy as np
import pytest
import toys

import export
from export.model.options import ExportOptions
from export.model.request import DEFAULTS, ExportRequest, fitting_lengths
from export.targets import saved_model
from tfdistill import errors, models
from tfdistill.commands import export as export_command
from tfdistill.tasks.encoded import EncodedExamples

DOORS = (export.to_tflite, export.auto, export.sweep)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door_takes_the_options(door):
    parameters = inspect.signature(door).parameters
    assert parameters["options"].annotation == "Unpack[ExportOptions]"
    assert parameters.keys().isdisjoint(ExportOptions.__annotations__)  # declared once
    documented = inspect.getdoc(door)
    assert [name for name in parameters if f"{name}: " not in documented] == []


@pytest.mark.parametrize(
    ("door", "chosen"),
    [
        (export.auto, {"quantize", "variants", "layers"}),
        (export.sweep, {"quantize", "variants", "name"}),
    ],
)
def test_what_a_door_chooses_itself_is_no_option_of_it(door, chosen, toy, tmp_path):
    for name in chosen:
        with pytest.raises(errors.ConfigError, match=f"options: .* received '{name}'"):
            door(toy.model, tmp_path / "m.tflite", **{name: None})


def test_command_line_and_python_have_the_same_defaults():
    (command,) = export_command.COMMANDS
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    options = {action.dest: action for action in parser._actions}
    assert options["quantize"].default is None  # --list: all of them
    assert f"which is {DEFAULTS['quantize']};" in options["quantize"].help
    assert options["calibrate"].default is options["seed"].default is None  # not passed on
    assert f"(default: {DEFAULTS['num_calibration']})" in options["calibrate"].help
    assert f"(default: {DEFAULTS['seed']})" in options["seed"].help


def test_short_names_of_quantizations_are_spelled_out(toy):
    request = ExportRequest(
        *(toy.model, "m.tflite"),
        quantize="int4",
        variants={"gpu": "int8"},
        layers={"layer_0_*": "int8", "layer_1_*": "float32"},
    )
    assert request.quantize == "dynamic_wi4_afp32"
    assert request.variants == {"gpu": "dynamic_wi8_afp32"}
    assert request.layers == {"layer_0_*": "dynamic_wi8_afp32", "layer_1_*": "float32"}
    assert request.replace(quantize="int8").quantize == "dynamic_wi8_afp32"


def test_examples_that_can_be_read_once_serve_several_exports(toy):
    ids = toy.encoded.row(0)[None]
    batches = iter([{"input_ids": ids, "attention_mask": np.ones_like(ids)}])
    request = ExportRequest(toy.model, "m.tflite", check_on=batches).collected()
    assert [len(again.check_on) for again in (request.collected(), request.collected())] == [1, 1]
    np.testing.assert_array_equal(request.check_on.row(0), toy.encoded.row(0))
    assert request.calibrate_on is None


def model_of(positions):
    return models.build_classifier(toys.SHALLOW_STUDENT.replace(max_positions=positions), 2)


@pytest.mark.parametrize(
    ("positions", "lengths"), [(12, (12,)), (32, (32,)), (100, (32, 64)), (512, (32, 64, 128))]
)
def test_the_lengths_of_a_file_are_those_that_its_model_has_positions_for(positions, lengths):
    assert ExportRequest(model_of(positions), "m.tflite").chosen_lengths == lengths


def test_the_lengths_of_a_file_without_named_ones_fit_the_development_texts(toy):
    """All of 9 tokens, of which 64 texts are as cheap at 16 as anywhere."""
    ids = np.tile(np.arange(5, 14, dtype=np.int32), 64)
    offsets = np.arange(0, len(ids) + 1, 9)
    texts, model = EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8)), model_of(100)
    assert fitting_lengths(model, 90, texts) == (16, 90)
    assert fitting_lengths(model, None, texts) == (16, 64)
    assert fitting_lengths(model, 90) == (32, 64, 90)
    assert fitting_lengths(model, 90, texts.select([])) == (32, 64, 90)


@pytest.mark.parametrize("character", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\0"])
def test_a_label_that_would_not_be_one_line_of_labels_txt_is_refused(toy, tmp_path, character):
    labels = [f"a{character}b", *"bcdefgh"[: models.num_labels_of(toy.model) - 1]]
    with pytest.raises(errors.ConfigError, match="names of one line each"):
        export.to_tflite(toy.model, tmp_path / "m.tflite", lengths=(8,), labels=labels)
    assert not list(tmp_path.iterdir())


def test_the_folder_of_the_vocabulary_says_whether_text_is_lower_cased(
    toy, toy_vocab_file, tmp_path, monkeypatch
):
    path = shutil.copy(toy_vocab_file, tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    saved = []
    monkeypatch.setattr(saved_model, "_save", lambda *arguments: saved.append(arguments[2]))
    monkeypatch.setattr(
        saved_model.checks, "require", lambda *arguments: saved.append(arguments[2].tokenizer)
    )
    export.to_saved_model(toy.model, tmp_path / "saved", tokenizer=path, labels=toy.task.labels)
    assert [tokenizer.lower_case for tokenizer in saved] == [False, False]
