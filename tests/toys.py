"""Toy models and examples: small enough to train in a test, and with weights that count."""

from __future__ import annotations

import contextlib
import io
import types
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import cli, config, models, weights
from tfdistill.data import batches, vocab

STUDENT = models.EncoderConfig(
    num_layers=2,
    hidden_size=8,
    num_heads=2,
    intermediate_size=12,
    vocab_size=30,
    max_positions=12,
    dropout=0.0,
    attention_dropout=0.0,
)
TEACHER = STUDENT.replace(num_layers=4, hidden_size=12)
MOBILEBERT = models.MobileBertConfig(
    num_layers=1,
    hidden_size=16,
    num_heads=2,
    intermediate_size=12,
    vocab_size=30,
    max_positions=12,
    embedding_size=8,
    bottleneck_size=8,
    num_feed_forward=2,
)
BILSTM = models.BiLstmConfig(vocab_size=30, embedding_size=4, hidden_size=4, dense_size=4)
SHALLOW_STUDENT = STUDENT.replace(num_layers=1)
SHALLOW_TEACHER = TEACHER.replace(num_layers=2)
NUM_LABELS = 3


def randomise(model: keras.Model, seed: int = 0, *, scale: float = 0.3) -> keras.Model:
    """Gives every weight a value that counts: a fresh model answers almost the same to anything."""
    random = np.random.default_rng(seed)
    for variable in model.weights:
        centre = 1.0 if "gamma" in variable.name else 0.0
        variable.assign(random.normal(centre, scale, variable.shape))
    return model


def classifier(
    config: models.EncoderConfig, num_labels: int = NUM_LABELS, *, seed: int = 0
) -> keras.Model:
    return randomise(models.build_classifier(config, num_labels), seed)


def check_equal(ours: Any, expected: Any, **tolerances: Any) -> None:
    """Compares arrays one by one, bit for bit where no tolerance is given."""
    for left, right in zip(ours, expected, strict=True):
        if tolerances:
            np.testing.assert_allclose(left, right, **tolerances)
        else:
            np.testing.assert_array_equal(left, right)


def features(lengths: tuple[int, ...], *, seed: int = 0) -> dict[str, tf.Tensor]:
    """A batch padded to the longest; padding holds the id 0."""
    random = np.random.default_rng(seed)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    ids = random.integers(1, STUDENT.vocab_size, mask.shape).astype(np.int32) * mask
    types = random.integers(0, 2, mask.shape).astype(np.int32) * mask
    arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: tf.constant(array) for name, array in arrays.items()}


def labels(count: int, *, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).integers(0, NUM_LABELS, count), tf.int32)


def encoded(
    count: int, *, seed: int = 0, num_labels: int = NUM_LABELS, weights: bool = False
) -> batches.EncodedExamples:
    """Random examples of 3 to 9 tokens with random labels."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(3, 10, count))])
    total = int(offsets[-1])
    return batches.EncodedExamples(
        ids=random.integers(1, STUDENT.vocab_size, total).astype(np.int32),
        offsets=offsets.astype(np.int64),
        types=random.integers(0, 2, total).astype(np.uint8),
        labels=random.integers(0, num_labels, count).astype(np.int32),
        weights=np.ones(count, np.float32) if weights else None,
    )


def stopping(predictor: Any, call: int) -> tuple[Any, list[int]]:
    """A predictor that is interrupted at one of its calls, and the sizes that were asked for."""
    positions: list[int] = []

    def stopped(model: keras.Model) -> Any:
        predict = predictor(model)

        def ask(data: Any) -> Any:
            positions.append(len(data.encoded))
            if len(positions) == call:
                raise KeyboardInterrupt
            return predict(data)

        return ask

    return stopped, positions


def write_documents(path):
    """Writes 20 documents of 3 sentences, whose words are in the toy vocabulary."""
    random = np.random.default_rng(5)
    words = ["good", "bad", "film", "story", "seven", "playing"]
    documents = [
        "\n".join(" ".join(random.choice(words, size=8)) + "." for _ in range(3)) for _ in range(20)
    ]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def token_rows(tokenizer, lengths, *, seed=0, ids=None):
    """Rows [CLS] ... [SEP] of ordinary tokens; no row as long as the batch is wide."""
    random = np.random.default_rng(seed)
    real = np.arange(max(lengths) + 2) < np.array(lengths)[:, None]
    ordinary = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.special_ids)
    drawn = np.where(real, random.choice(ids or ordinary, real.shape), tokenizer.pad_id)
    drawn[:, 0] = tokenizer.cls_id
    drawn[np.arange(len(lengths)), np.array(lengths) - 1] = tokenizer.sep_id
    kinds = random.integers(0, 2, real.shape)
    arrays = {"input_ids": drawn, "attention_mask": real, "token_type_ids": kinds}
    return {name: tf.constant(array.astype(np.int32)) for name, array in arrays.items()}


def save_encoder(folder, texts, shape):
    """Saves an encoder of random weights in `bert`, with a vocabulary of the texts."""
    vocab.write_vocab(vocab.train_vocab(texts, shape.vocab_size), folder / "vocab.txt")
    encoder = randomise(models.build_encoder(shape), seed=1)
    return weights.save_hf(encoder, folder / "bert", tokenizer=folder / "vocab.txt")


def call(command):
    """Calls a command where no `capsys` is: its exit code, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(command)
    return types.SimpleNamespace(code=code, shown=out.getvalue(), told=err.getvalue())


def write_labelled(folder, words, labels, shape, *, seed=3, scale=0.3):
    """Writes vocab.txt of the words, and a teacher of random weights for the labels."""
    tokens = [*vocab.SPECIAL_TOKENS, *words]
    vocab.write_vocab(tokens, folder / "vocab.txt")
    shape = shape.replace(vocab_size=len(tokens))
    teacher = randomise(models.build_classifier(shape, len(labels) or 1), seed, scale=scale)
    names = labels or None
    return weights.save_hf(
        teacher, folder / "teacher", labels=names, tokenizer=folder / "vocab.txt"
    )


def one_stage(data, teacher, student, stage, **more):
    """The recipe of a run of one stage, without baselines, whose models may be weak."""
    return config.parse_recipe(
        {
            "name": "toy",
            "data": data,
            "teacher": {"export": False, "allow_weak": True, **teacher},
            "student": {"allow_weak": True, **student},
            "stages": {"only": stage},
            "variants": {"student": {"stages": ["only"]}},
            "baselines": "none",
            **more,
        }
    )
