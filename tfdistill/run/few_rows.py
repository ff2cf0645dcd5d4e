"""Few labelled rows: whether a head over the frozen encoder answers them, by cross-validation."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfdistill import analysis, config, results, tasks, training, weights
from tfdistill.data import tokenize
from tfdistill.data.labelled_file import FEWEST_ROWS
from tfdistill.data.task_data import TaskData, encode, to_evaluate, to_train
from tfdistill.tasks import splitting

_LONGEST = 256  # tokens of a text that are read


class Road(NamedTuple):
    """How a quickstart on few rows goes on.

    Attributes:
      frozen: Whether the encoder stays as it is.
      note: The scores that this follows from.
    """

    frozen: bool
    note: str


def choose(source: str, examples: tasks.Examples) -> Road:
    """Cross-validates a head over a frozen encoder, and TF-IDF of the words.

    The encoder stays frozen unless words alone answer better, beyond chance, and the rows can be
    split: then its states say little of the labels, and it is fine-tuned. Nothing is trained in
    steps here, which would take minutes a fold.

    Args:
      source: The Hugging Face folder or hub id of the encoder.
      examples: The labelled texts, of classes that exclude each other.
    """
    task, labels = examples.spec, examples.labels
    assert labels is not None
    loaded = weights.load_model(
        source, "sequence", num_labels=task.num_labels, new_head=True, pooled=True
    )
    limit = min(_LONGEST, loaded.config.max_positions, loaded.max_length or _LONGEST)
    settings = config.DataConfig(task=task.name, max_length=limit)
    vocab_file = weights.existing_vocab(loaded.vocab_file, source)
    tokenizer = tokenize.Tokenizer(vocab_file, lower_case=loaded.lower_case)
    encoded = encode(settings, tokenizer, examples)
    data = TaskData(
        settings=settings,
        seed=1,
        tokenizer=tokenizer,
        vocab_file=vocab_file,
        task=task,
        train=to_train(encoded, 1),
        train_examples=examples,
        dev=to_evaluate(encoded),
        dev_examples=examples,
    )
    words = analysis.answer_unseen(
        analysis.TextFeatures(examples)(examples),
        labels,
        splitting.folds_of(labels),
        lambda rows, gold: analysis.fit_linear(task, rows, gold).predict,
    )
    paired = analysis.paired_difference(
        task, labels, words, training.unseen_logits(loaded.model, data)
    )
    beaten, (low, high) = paired.difference < 0, paired.interval
    frozen = not (beaten and paired.is_clear and len(examples) >= FEWEST_ROWS)
    if not frozen:
        taken = "the encoder is fine-tuned, since words alone answer better than its states"
    elif beaten:
        taken = (
            "a linear head over the frozen encoder, although words alone answer better. "
            f"{results.WORDS_BETTER}"
        )
    else:
        taken = (
            "a linear head over the frozen encoder (a fine-tuned one is not compared: it would "
            "take minutes; --finetune always or --student NAME takes that road)"
        )
    note = (
        f"{task.primary_metric}, cross-validated: frozen encoder {paired.after:.3f}, words alone "
        f"{paired.before:.3f} (difference {paired.difference:+.3f}, 95% interval {low:+.3f} to "
        f"{high:+.3f}); taken: {taken}"
    )
    return Road(frozen, note)


def sections(source: str) -> dict[str, Any]:
    """The sections of a recipe whose model is a head over a frozen encoder: teacher and student."""
    return {
        "teacher": {"source": source, "finetune": {"frozen": True}},
        "student": {"preset": config.TEACHER},
        "stages": {},
        "variants": {},
    }
