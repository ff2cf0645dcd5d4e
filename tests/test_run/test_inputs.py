"""A run folder stands for its student, and for its teacher only where there is nothing else."""

import contextlib
import types

import numpy as np
import pytest
import toys

from tfdistill import cli, config, errors, models, results, run, tasks, weights
from tfdistill.data import batches
from tfdistill.io import files, ledger, work_folder
from tfdistill.run import folder, inputs, records
from tfdistill.tokenization.reading import read_tokenizer

FINETUNED = config.load_recipe("demo")  # its teacher is fine-tuned in the run
GIVEN = config.load_recipe("demo", ["teacher={source: somewhere}", "student.allow_weak=true"])


@pytest.fixture
def save(tmp_path, toy_vocab_file):
    """Saves a classifier with labels of its own below the run folder."""

    def write(place, label):
        shape = toys.SHALLOW_STUDENT.replace(vocab_size=200)
        model = toys.classifier(shape, 2)
        target = tmp_path / place / "hf"
        weights.save_hf(model, target, labels=[label, "other"], tokenizer=toy_vocab_file)
        return tmp_path / place

    return write


def write_recipe(root, recipe):
    files.atomic_write_text(root / config.RECIPE_FILE, config.dump_recipe(recipe))


@pytest.mark.parametrize("began", [True, False])
def test_a_teacher_never_stands_for_a_student_that_is_not_there_yet(save, tmp_path, began):
    save("teacher/model", "teacher")
    write_recipe(tmp_path, FINETUNED if began else GIVEN)
    if began:
        (tmp_path / "stages").mkdir()
    with pytest.raises(errors.WeightsError, match=r"received none yet\. Continue it with --resume"):
        inputs.open_source(str(tmp_path))


def test_a_bare_encoder_is_told_what_its_kind_needs(tmp_path, toy_vocab_file, capsys):
    model = toys.randomise(models.build_encoder(toys.SHALLOW_STUDENT.replace(vocab_size=200)))
    bare = str(weights.save_hf(model, tmp_path / "bare", tokenizer=toy_vocab_file))
    assert cli.main(["export", bare, "--kind", "embedding", "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "expected a sentence-transformers folder, with modules.json and 1_Pooling" in told
    assert not (tmp_path / "out" / "model.tflite").exists()
    either = "expected a head of kind 'sequence', or a sentence-transformers folder"
    with pytest.raises(errors.WeightsError, match=either):
        inputs.open_source(bare)
    for kind, head in (("multi_label", "sequence"), ("token", "token"), ("span", "span")):
        with pytest.raises(
            errors.WeightsError, match=f"expected a head of kind '{head}', received"
        ):
            inputs.open_source(bare, kind=kind)


def test_the_kind_of_an_unknown_task_decides_the_head(tmp_path, toy_vocab_file):
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=200)
    for kind, head in (("token", "token"), ("embedding", "embedding")):
        model = toys.randomise(models.build_model(shape, models.Head(head, 3)))
        folder = weights.save_hf(model, tmp_path / kind, tokenizer=toy_vocab_file)
        assert models.head_of(inputs.open_source(str(folder), kind=kind).model) == head


def test_what_distill_leaves_is_opened_as_its_student(save, tmp_path, monkeypatch):
    save("teacher/model", "teacher")
    write_recipe(tmp_path, GIVEN)
    work_folder.WorkFolder(tmp_path, folder.KIND).start()

    def student(context, name, seed):
        record = f"students/{name}/seed-{seed}"
        ledger.write_checksums(save(record, "student"))
        return results.ModelResult(name=name, role="student", folder=record)

    monkeypatch.setattr(folder.RunFolder, "open", lambda place, *_, **__: opened(place))
    nothing = (types.SimpleNamespace(task=None), {}, None)
    monkeypatch.setattr(run.prepare, "prepare", lambda *_: nothing)
    monkeypatch.setattr(records, "train_student", student)

    record = run.distill_variant(GIVEN, tmp_path)

    assert record.model_folder == "student/hf"
    assert inputs.open_source(str(tmp_path)).labels == ("student", "other")


@pytest.mark.parametrize("folder", ["../home", "link", "/etc"])
def test_a_result_that_names_a_folder_elsewhere_copies_nothing(tmp_path, folder):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("")
    root = tmp_path / "run"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "home")
    chosen = results.ModelResult(name="full", role="student", folder=folder)
    with pytest.raises(errors.ManifestError, match="a path inside run/"):
        run.deliver.keep_chosen(root, chosen)
    assert {path.name for path in root.iterdir()} == {"link"}


@contextlib.contextmanager
def opened(place):
    yield place


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["as loaded", "in the order of the task"])
def test_evaluation_changes_nothing_whatever_the_order_of_the_labels(toy_vocab_file, again):
    mnli = tasks.task("mnli")
    model = toys.classifier(toys.SHALLOW_STUDENT, seed=3)
    names = ("contradiction", "entailment", "neutral")
    source = inputs.Source(model, names, read_tokenizer(toy_vocab_file), None)
    examples = batches.Batches(toys.encoded(40, seed=2), shuffle=False)
    expected = mnli.score(source.outputs(examples, mnli), examples.encoded)
    if again:
        source = source.in_order_of(mnli).in_order_of(mnli)
    before = model.get_weights()

    figures = [
        source.score(source.outputs(examples, mnli), examples.encoded, mnli) for _ in range(3)
    ]

    assert figures == [expected] * 3
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)


def test_a_saved_student_is_opened_with_the_factors_that_it_was_trained_with(
    tmp_path, toy_vocab_file
):
    data = types.SimpleNamespace(tokenizer=read_tokenizer(toy_vocab_file))
    shape = toys.STUDENT.replace(embedding_size=4, vocab_size=data.tokenizer.vocab_size)
    model = toys.randomise(toys.classifier(shape), 3)
    run.deliver.save_model(model, data, tmp_path / "saved")
    again = inputs.open_source(str(tmp_path / "saved" / "hf"), kind="classification").model
    for name in ("word_embeddings", "embedding_projection"):
        expected, received = (each.get_layer(name).get_weights()[0] for each in (model, again))
        np.testing.assert_array_equal(received, expected)
