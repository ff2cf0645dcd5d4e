"""The Python that README and guides show runs as it stands."""

import contextlib
import json
import pathlib
import re
import shutil
import sys
import types
from collections.abc import Sequence

import numpy as np
import pytest
import toys

ROOT = pathlib.Path(__file__).parents[2]
TRACKING = ROOT / "docs" / "guides" / "tracking.md"  # needs packages that are not installed
ANSWERS = ROOT / "docs" / "guides" / "model-answers.md"  # its Python is that of other tools
LANGUAGES = ROOT / "docs" / "tutorials" / "languages.md"  # run by test_shown_commands.py
PAGES = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")}
DOCUMENTS = sorted(PAGES - {TRACKING, ANSWERS, LANGUAGES})
VOCAB_SIZE = 30522  # the presets' own
TAGGER = ROOT / "android_demo/text/src/test/resources/bundles/tags-float32"


def python_blocks(documents: Sequence[pathlib.Path] = DOCUMENTS) -> list[str]:
    """Returns the distinct blocks of Python in the documents."""
    texts = (document.read_text("utf-8") for document in documents)
    blocks = [
        block
        for text in texts
        for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        if "runs/python" not in block  # of 1,000 steps: test_run/test_python_and_command.py
    ]
    return list(dict.fromkeys(blocks))


def exported_to_keras_3(folder):
    """A student with its file for Keras 3, and features and labels to go on with."""
    import export
    from tfdistill import models

    shape = {"num_layers": 1, "hidden_size": 24, "num_heads": 2, "intermediate_size": 48}
    student = models.build_classifier(models.preset("bert_tiny").replace(**shape), 2)
    export.to_keras(student, folder / "student.keras")
    ids = np.random.default_rng(1).integers(5, VOCAB_SIZE, (8, 6))
    features = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    return {"student": student, "features": features, "labels": np.arange(8) % 2}


def export_that_promises(folder):
    """An export of a toy as an app has it, all of whose answers are sure."""
    from tfdistill import manifest
    from tfdistill.manifest import confidence

    bundles = ROOT / "android_demo" / "text" / "src" / "test" / "resources" / "bundles"
    shutil.copytree(bundles / "pairs-float32", folder)
    card = manifest.read_manifest(folder)
    promise = {"max_error": 0.05, "rows": 300, "threshold": 0.0, "coverage": 1.0, "error": 0.0}
    record = confidence.Confidence.of_file(
        card.model.sha256, temperature=1.0, num_examples=100, promises=(promise,)
    )
    task = card.task.model_copy(update={"pair": False})
    manifest.write_manifest(card.model_copy(update={"confidence": record, "task": task}), folder)


def test_there_is_an_example():
    assert python_blocks()


@pytest.mark.slow
@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: f"{len(block)} characters")
def test_the_example_runs(block, working_folder, capsys):
    if "student.keras" in block:
        example = exported_to_keras_3(working_folder)
        before = [weight.numpy() for weight in example["student"].weights]
        exec(compile(block, "example", "exec"), {"__name__": "example", **example})
        after = example["student"].get_weights()
        assert any((old != new).any() for old, new in zip(before, after, strict=True))
        return
    if ".mask(" in block:
        shutil.copytree(TAGGER, working_folder / "runs" / "pii" / "export")
        exec(compile(block, "example", "exec"), {"__name__": "example"})
        masked, restored = capsys.readouterr().out.splitlines()
        assert "[IBAN_1]" in masked and "GB82" not in masked and "[IBAN_1]" not in restored
        return
    if "tfdistill.predict(" in block:
        exec(compile(block, "example", "exec"), {"__name__": "example"})
        label, probability = capsys.readouterr().out.split()
        assert label in ("negative", "positive") and 0.5 <= float(probability) <= 1
        return
    if "Predictor(" in block:
        export_that_promises(working_folder / "runs" / "intents" / "export")
    exec(compile(block, "example", "exec"), {"__name__": "example"})

    if "Predictor(" in block:
        label, probability, sure = capsys.readouterr().out.split()
        assert label in ("no", "yes", "maybe") and 0 < float(probability) < 1 and sure == "True"
        return
    if "read_result" in block:
        assert "student 32 1 1.1" in capsys.readouterr().out
        return
    if "evaluate" not in block:  # it shows how something is written
        return
    assert "accuracy" in capsys.readouterr().out
    assert (working_folder / "student" / "model.tflite").stat().st_size > VOCAB_SIZE * 24
    assert (working_folder / "student" / "model.json").is_file()


class Tracker(types.ModuleType):
    """Stands in for mlflow and for wandb and its runs: keeps what is logged."""

    def __init__(self):
        super().__init__("tracker")
        self.metrics, self.params, self.artifacts = [], {}, []

    @contextlib.contextmanager
    def start_run(self, run_name):
        yield self

    @contextlib.contextmanager
    def init(self, project, config):
        self.params.update(config)
        yield self

    def set_tracking_uri(self, address):
        assert address.startswith("sqlite:")

    def log_params(self, values):
        self.params.update(values)

    def log_metrics(self, values, step=None):
        self.metrics.append((step, dict(values)))

    log = log_metrics

    def log_artifact(self, path):
        assert path.is_file()
        self.artifacts.append(path.name)


@pytest.mark.slow
def test_the_examples_of_tracking_log_every_epoch_and_every_model(monkeypatch, tmp_path):
    from tfdistill import distillers
    from tfdistill.data import batches

    distiller = distillers.LabelTrainer(toys.classifier(toys.STUDENT))
    distiller.compile(optimizer="sgd", run_eagerly=True)
    examples = batches.Batches(toys.encoded(8), shuffle=False)
    folder = tmp_path / "runs" / "sst2"
    folder.mkdir(parents=True)
    models = [{"name": "teacher", "metrics": {"accuracy": 0.9}}]
    (folder / "metrics.json").write_text(json.dumps({"recipe": "sst2", "models": models}))
    for name in ("recipe.yaml", "report.html"):
        (folder / name).touch()
    monkeypatch.chdir(tmp_path)
    logged = []
    for block in python_blocks([TRACKING]):
        tracker = Tracker()
        monkeypatch.setitem(sys.modules, "mlflow", tracker)
        monkeypatch.setitem(sys.modules, "wandb", tracker)
        data = types.SimpleNamespace(train=examples, dev=examples)
        names = {"distiller": distiller, "data": data}
        exec(compile(block, "example", "exec"), names)
        logged.append(tracker)

    assert len(logged) == 3
    for tracker in logged[:2]:
        assert [step for step, _ in tracker.metrics] == [0, 1, 2]
        assert all({"loss", "val_loss"} <= values.keys() for _, values in tracker.metrics)
        assert tracker.params["student"].startswith("pruned:")
    assert logged[2].metrics == [(None, {"teacher/accuracy": 0.9})]
    assert logged[2].artifacts == ["recipe.yaml", "report.html"]
