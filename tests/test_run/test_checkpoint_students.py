"""Students that exist: shape and weights of a Hugging Face folder, head and tokens as they fit."""

import numpy as np
import pytest
import safetensors.numpy
import toys
import transformers

from tfdistill import config, errors, models, run, tasks, training, weights
from tfdistill.data import batches, synthetic, vocab
from tfdistill.run import stages, students
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

STEP = {"epochs": 1, "batch_size": 16}
SIZES = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
MOBILE = {
    **SIZES,
    "num_hidden_layers": 3,
    "embedding_size": 8,
    "intra_bottleneck_size": 8,
    "true_hidden_size": 8,
}
LAYOUTS = {
    "bert-small": ("Bert", {**SIZES, "num_hidden_layers": 2}),  # that of MiniLM-L3, too
    "TinyBERT_General_4L": ("Bert", {**SIZES, "num_hidden_layers": 2}),
    "mobilebert": ("MobileBert", MOBILE),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assistant")
    synthetic.write_task(folder, num_train=48, num_dev=24, num_test=10, num_documents=10)
    return folder


@pytest.fixture(scope="module")
def words():
    return vocab.train_vocab(synthetic.generate(300)[0], 300)


@pytest.fixture(scope="module")
def teacher(data_dir, tmp_path_factory, words):
    """A teacher of random weights: what is tested is the path, not what it knows."""
    folder = tmp_path_factory.mktemp("teacher") / "hf"
    shape = {"num_layers": 2, "num_heads": 2, "intermediate_size": 24, "vocab_size": len(words)}
    shape = models.preset("bert_tiny").replace(**shape, hidden_size=24, max_positions=32)
    path = folder.parent / "vocab.txt"
    vocab.write_vocab(words, path)
    model = models.build_classifier(shape, len(synthetic.TASK.labels))
    weights.save_hf(model, folder, labels=synthetic.TASK.labels, tokenizer=path)
    return folder


def save_toy(folder, layout, words):
    """Saves a bare encoder as it lies on the hub: weights and tokenizer by transformers."""
    family, sizes = LAYOUTS[layout]
    shape = getattr(transformers, f"{family}Config")(vocab_size=len(words), **sizes)
    model = getattr(transformers, f"TF{family}Model")(shape)
    model(model.dummy_inputs)
    model.save_pretrained(folder, safe_serialization=True)
    if layout.startswith("TinyBERT"):  # it carries the projections that it was distilled with
        path = folder / "model.safetensors"
        tensors = safetensors.numpy.load_file(path)
        tensors["fit_dense.weight"] = np.zeros((24, 16), np.float32)
        safetensors.numpy.save_file(tensors, path, metadata={"format": "tf"})
    vocab.write_vocab(words, folder / "vocab.txt")
    return folder


def recipe_of(data_dir, teacher, student, kind="joint", **changes):
    step = {"kind": kind, **STEP, "learning_rate": 1e-3}
    return toys.one_stage(
        {"task": "assistant", "dir": str(data_dir), "max_length": 16},
        {"source": str(teacher)},
        {"preset": str(student), **changes},
        step | ({"min_steps": 1} if kind == "joint" else {}),
    )


@pytest.mark.parametrize(
    "layout", ["TinyBERT_General_4L", pytest.param("mobilebert", marks=pytest.mark.thorough)]
)
def test_shape_and_weights_come_from_the_folder(
    layout, data_dir, teacher, words, tmp_path, monkeypatch, capsys, until_fit
):
    student = save_toy(tmp_path / layout, layout, words)
    began = {}
    real = students.build_stage

    def look(stage, lesson, model, *args):
        began.update({layer.name: layer.get_weights() for layer in model.layers})
        return real(stage, lesson, model, *args)

    monkeypatch.setattr(students, "build_stage", look)
    distiller, _ = until_fit(recipe_of(data_dir, teacher, student), tmp_path / "run")
    shape = models.config_of(distiller.student)
    expected = weights.load_encoder(student)
    for layer in expected.layers:
        for ours, published in zip(began[layer.name], layer.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, published, err_msg=layer.name)
    assert shape.num_layers == models.config_of(expected).num_layers
    assert models.config_of(expected).hidden_size == shape.hidden_size == 16
    assert type(shape) is type(models.config_of(expected))
    if layout != "mobilebert":
        assert shape.family == "tinybert"
    said = capsys.readouterr().err
    if layout == "mobilebert":
        assert "no hidden states, since it has 3 layers, its teacher 2" in said
    else:
        assert "and hidden states, student layer <- teacher layer" in said


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, words):
    """A student whose vocabulary has the teacher's words at other ids, and fewer of them."""
    folder = tmp_path_factory.mktemp("stranger") / "bert-small"
    return save_toy(folder, "bert-small", [*words[:5], *sorted(words[5:-20], reverse=True)])


@pytest.mark.parametrize("kind", [pytest.param("logits", marks=pytest.mark.thorough), "joint"])
def test_each_side_reads_its_own_tokens(
    kind, data_dir, teacher, stranger, tmp_path, monkeypatch, capsys
):
    planned = []
    real = stages.stage_batches

    def look(*args):
        planned.append(real(*args))
        return planned[-1]

    monkeypatch.setattr(stages, "stage_batches", look)
    recipe = recipe_of(data_dir, teacher, stranger, kind)
    run.distill_variant(recipe, tmp_path / "run")
    (used,) = planned
    examples = tasks.load_examples(synthetic.TASK, data_dir, "train")
    expected = {
        source: batches.encode_examples(examples, read_tokenizer(source / "vocab.txt"), 16)
        for source in (teacher, stranger)
    }
    np.testing.assert_array_equal(used.encoded.ids, expected[stranger].ids)
    assert not np.array_equal(expected[stranger].ids, expected[teacher].ids)
    answers = training.predict_logits(
        weights.load_classifier(teacher).model,
        batches.Batches(expected[teacher], shuffle=False),
    )
    # Float32 sums in batches of other sizes.
    np.testing.assert_allclose(used._extra["teacher_logits"], answers, rtol=0, atol=1e-5)
    saved = tmp_path / "run" / "student" / "hf" / "vocab.txt"
    assert saved.read_bytes() == (stranger / "vocab.txt").read_bytes()
    said = capsys.readouterr().err
    assert "the student reads its own tokens" in said
    if kind == "joint":
        assert "no hidden states, since its vocabulary is not the teacher's" in said


def test_another_vocabulary_is_refused_where_layers_are_compared(
    data_dir, teacher, stranger, tmp_path
):
    values = recipe_of(data_dir, teacher, stranger).model_dump()
    values["stages"]["first"] = {"kind": "intermediate"}
    values["variants"]["student"]["stages"] = ["first", "only"]
    recipe = config.parse_recipe(values)
    with pytest.raises(errors.VocabularyError, match=r"stages.first.*--stages logits"):
        run.distill_variant(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "teacher").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"student": {"num_layers": 1}}, "no sizes: a checkpoint has its own"),
        ({"data": {"max_length": 48}}, r"data.max_length: expected at most 32"),
        ({"student": {"preset": "./nowhere"}}, "student.preset: ./nowhere is not there"),
    ],
)
def test_what_does_not_fit_a_checkpoint_is_refused_at_once(
    changes, message, data_dir, teacher, stranger, tmp_path
):
    values = recipe_of(data_dir, teacher, stranger).model_dump()
    for section, change in changes.items():
        values[section] |= change
    with pytest.raises(errors.ConfigError, match=message):
        run.distill_variant(config.parse_recipe(values), tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.yaml").exists()
