"""The docstring of every public name has an example, and the examples do what they show."""

import doctest
import inspect

import pytest
import tf_keras as keras
import yaml

import export
import tfdistill

NO_EXAMPLE = ("__version__", "methods")
FILES = ("to_tflite", "fit_size")  # what they write and return is what other examples begin with


def public_things():
    """Every public name with its function or class; `methods` by its functions."""
    methods = tfdistill.methods
    things = {
        f"{package.__name__}.{name}": getattr(package, name)
        for package, name in sorted(
            ((package, name) for package in (tfdistill, export) for name in package.__all__),
            key=lambda pair: (pair[1] not in FILES, pair[0].__name__ == "export", pair[1]),
        )
        if name not in NO_EXAMPLE
    }
    for name, function in inspect.getmembers(methods, inspect.isfunction):
        if function.__module__ == methods.__name__:
            things[f"tfdistill.methods.{name}"] = function
    return things


def example_of(name, thing, names):
    """The lines of an example, which read `names`."""
    text = inspect.getdoc(thing)
    return doctest.DocTest(
        doctest.DocTestParser().get_examples(text, name), names, name, None, 0, text
    )


def recipe(folder):
    """Writes a recipe of one short stage."""
    values = {
        "name": "toy",
        "data": {"task": "sst2", "dir": str(folder / "glue" / "SST-2"), "max_length": 16},
        "teacher": {"source": str(folder / "teacher"), "allow_weak": True},
        "student": {"preset": "bert_tiny", "num_layers": 1, "hidden_size": 24, "num_heads": 2},
        "stages": {"logits": {"kind": "logits", "epochs": 1, "learning_rate": 1e-3}},
        "variants": {"toy": {"stages": ["logits"]}},
        "export": {"lengths": [16]},
        "benchmark": {"warmup": 1, "runs": 2, "min_seconds": 0, "repetitions": 1},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


@pytest.fixture
def eager(monkeypatch):
    """Runs steps as they are written: to trace one takes longer than the steps of a toy."""
    always = property(lambda model: True, lambda model, value: None)
    monkeypatch.setattr(keras.Model, "run_eagerly", always)


def test_every_public_name_has_an_example_that_ends_with_a_value():
    things = public_things()
    assert {"tfdistill.fit", "export.auto", "tfdistill.methods.tinybert"} <= things.keys()
    parsed = {name: example_of(name, thing, {}).examples for name, thing in things.items()}
    assert [name for name, lines in parsed.items() if not lines or not lines[-1].want] == []


@pytest.mark.slow
def test_the_examples_of_public_names_show_what_comes_out(working_folder, eager):
    recipe(working_folder)
    data = tfdistill.load_data("glue/SST-2", tokenizer="teacher", task="sst2")
    teacher = tfdistill.load_teacher("teacher", task=data.task)
    student = tfdistill.build_student("pruned:layers=3,ffn=768", teacher, data)
    at_hand = {
        "tfdistill": tfdistill,
        "export": export,
        "data": data,
        "teacher": teacher,
        "student": student,
    }
    runner, reports = doctest.DocTestRunner(verbose=False), []
    for name, thing in public_things().items():
        example = example_of(name, thing, at_hand)
        runner.run(example, out=reports.append, clear_globs=False)
        if name == "export.fit_size":
            at_hand["choice"] = example.globs["choice"]
    assert not reports, "".join(reports)
