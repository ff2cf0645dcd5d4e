"""A seventh kind of task: one class in each package, registered from outside, and no edit.

Stars are names in order. A model has an output for each step between two of them: the logit of
being above it. It is trained, exported, checked, and reported like the kinds that are built in.
"""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

import export
import tfdistill
from export.model import heads as outputs
from export.model import request
from tfdistill import errors, losses, models, tasks
from tfdistill.data import answers, batches
from tfdistill.losses import heads as answer_heads
from tfdistill.losses import methods
from tfdistill.models import heads as model_heads
from tfdistill.report import answer_sides, cells
from tfdistill.report.document import SectionPart
from tfdistill.report.sections import answers as answers_section
from tfdistill.results import tables
from tfdistill.tasks import kind, texts
from tfdistill.tflite import TfliteModel
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

WORDS = ("awful", "bad", "fair", "good", "great")
NAME = "ordinal"


class Stars(texts.TextKind):
    """One of names that have an order."""

    name = head = NAME
    metrics = ("accuracy", "within_one")
    exclusive = True

    def num_labels(self, labels):
        return max(len(labels) - 1, 0)

    def parse(self, spec, values, where):
        return texts.label_indices(spec, values, where)

    def chance(self, spec, labels):
        return float(np.bincount(labels).max() / len(labels))

    def _metrics(self, spec, scores, gold):
        distance = np.abs((scores > 0).sum(axis=1) - gold)
        values = {"accuracy": np.mean(distance == 0), "within_one": np.mean(distance <= 1)}
        return {name: float(values[name]) for name in spec.metrics}


class StarsHead(model_heads.HeadKind):
    """A logit for each step between two stars."""

    name, layer = NAME, "ordinal_classifier"
    of_texts = True

    def build(self, config, head, *, name=None, dtype_policy=None):
        encoder = models.build_encoder(config, name=name, dtype_policy=dtype_policy)
        dense = keras.layers.Dense(head.num_labels, name=self.layer, dtype="float32")
        return keras.Model(encoder.inputs, dense(encoder.output["pooled_output"]), name=name)


class StarsAnswers(answer_heads.MultiLabelAnswers):
    """Each step by itself; the label is the number of steps that are passed."""

    name = model_head = NAME
    label_axes = ("batch",)

    def gold(self, batch, logits, class_weights):
        steps = tf.range(logits.shape[-1], dtype=batch.labels.dtype)
        passed = tf.cast(batch.labels[:, None] > steps, tf.float32)  # (B, C)
        each = tf.nn.sigmoid_cross_entropy_with_logits(passed, logits)
        return tf.reduce_mean(each, axis=1), batch.sample_weight


class StarsOutputs(outputs.SequenceHead):
    """The number of steps that a file says are passed."""

    name = NAME
    description = "a model of stars"
    classifies = from_first_token = in_mediapipe = False

    def output_names(self, *, softmax=False):
        return ("step_logits",)

    def num_names(self, num_labels):
        return num_labels + 1

    def decisions(self, outputs, encoded, task=None):
        return (outputs > 0).sum(axis=1)


def parts(sides):
    for name in sides.logits:
        far = np.abs((sides.logits[name] > 0).sum(axis=1) - sides.gold) > 1
        line = {"What": "more than one star off", "Texts": cells.number(int(far.sum()))}
        table = tables.of_rows("stars", f"Stars of the {name}", [tables.row(line)])
        yield SectionPart("stars-part", tables=(table,))


@pytest.fixture
def stars():
    """The kind in all packages, until the test ends."""
    tasks.register(Stars())
    models.register_head(StarsHead())
    answer_heads.register(StarsAnswers())
    outputs.register(StarsOutputs())
    answers_section.register(NAME, parts)
    yield
    tables = (kind._KINDS, model_heads._KINDS, answer_heads._HEADS)
    for table in (*tables, outputs.HEADS, answers_section._PARTS):
        del table[NAME]


@pytest.fixture
def folder(tmp_path):
    """Reviews of one to five stars, and a vocabulary."""
    random = np.random.default_rng(0)
    for split, count in (("train", 400), ("dev", 60)):
        with (tmp_path / f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "stars"))
            for label in random.integers(5, size=count):
                writer.writerow((f"the film is {WORDS[label]} .", str(label + 1)))
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "is", ".", *WORDS)
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    return tmp_path


def test_a_file_of_a_kind_from_outside_is_recognised_and_two_names_are_one_step(stars, folder):
    rows = [f"the film {index} is {WORDS[index % 5]} .,{index % 5 + 1}" for index in range(60)]
    (folder / "reviews.csv").write_text("\n".join(["text,stars", *rows]))
    data = tfdistill.load_data(
        folder / "reviews.csv", tokenizer=folder / "vocab.txt", kind=NAME, allow_weak=True
    )
    assert data.task.kind == NAME and data.task.metrics == Stars.metrics
    assert data.task.labels == ("1", "2", "3", "4", "5")
    task = tasks.TaskSpec("two", "text", "stars", kind=NAME, labels=("bad", "good"))
    head = models.head_for(task.head, task.num_labels)
    assert not answer_heads.HEADS[task.head].answers_number(head.num_labels)
    request.check_task(task, outputs.HEADS[NAME], head.num_labels, softmax=False)


def test_a_name_is_taken_once(stars):
    for register, item in (
        (tasks.register, Stars()),
        (models.register_head, StarsHead()),
        (answer_heads.register, StarsAnswers()),
        (outputs.register, StarsOutputs()),
    ):
        with pytest.raises(errors.ConfigError):
            register(item)
    with pytest.raises(errors.ConfigError, match="not taken"):
        answers_section.register(NAME, parts)


def test_a_kind_from_outside_is_read_trained_exported_and_reported(stars, folder):
    task = tasks.TaskSpec("reviews", "text", "stars", kind=NAME).with_labels_of(folder)
    assert task.labels == ("1", "2", "3", "4", "5") and task.num_labels == 4
    vocab = folder / "vocab.txt"
    tokenizer = read_tokenizer(vocab)
    examples = {split: tasks.load_examples(task, folder, split) for split in ("train", "dev")}
    encoded = {s: batches.encode_examples(part, tokenizer, 12) for s, part in examples.items()}
    dev = batches.Batches(encoded["dev"], shuffle=False)

    keras.utils.set_random_seed(1)
    shape = toys.STUDENT.replace(
        vocab_size=14, hidden_size=32, intermediate_size=64, max_positions=16
    )
    head = models.head_for(task.head, task.num_labels)
    teacher, student = (models.build_model(shape, head) for _ in range(2))
    assert models.read_head(student) == head
    trainer = tfdistill.Distiller(None, teacher, {"gold": losses.GoldLabels()})
    trainer.compile(tfdistill.adamw(3e-3))
    trainer.fit(batches.Batches(encoded["train"], batch_size=16), epochs=6, verbose=0)
    assert tfdistill.evaluate(teacher, dev)["accuracy"] > 0.95
    distiller = tfdistill.Distiller(teacher, student, methods.hinton())
    distiller.compile(tfdistill.adamw(3e-3))
    distiller.fit(batches.Batches(encoded["train"], batch_size=16), epochs=6, verbose=0)
    reached = tfdistill.evaluate(student, dev)
    assert reached["accuracy"] > 0.9 and reached["within_one"] >= reached["accuracy"]

    path = folder / "out" / "model.tflite"
    export.to_tflite(
        student, path, task=task, check_on=encoded["dev"], texts=examples["dev"],
        tokenizer=vocab, lengths=(12,),
    )  # fmt: skip
    written = json.loads((path.parent / "model.json").read_text())
    assert written["task"]["kind"] == NAME and written["task"]["labels"] == list(task.labels)
    assert written["parity"]["file_metrics"] == pytest.approx(reached)
    file = TfliteModel(path)
    assert outputs.head_of_file(file).name == NAME
    logits = np.stack([file.predict(ids) for ids in map(encoded["dev"].row, range(60))])
    assert task.score(logits, encoded["dev"]) == pytest.approx(reached)

    answered = answers.of_examples(examples["dev"], {"model": logits, "file": logits})
    (section,) = answers_section.section(answer_sides.sides(None, None, answered))
    assert [part.key for part in section.parts][-1] == "stars-part"
