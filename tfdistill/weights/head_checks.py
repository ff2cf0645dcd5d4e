"""Checks that a checkpoint has the head and the sizes that are asked for."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfdistill import errors, models
from tfdistill.models.heads import KINDS as HEAD_KINDS
from tfdistill.tokenization import reading
from tfdistill.weights import keys
from tfdistill.weights.checkpoint import CONFIG_FILE, LIBRARY_FILE, Checkpoint, read_json

# A new head, a pooler; smaller differences are told by the names of the tensors.
_SLACK, _SLACK_LAYERS = 10_000_000, 12
# Classes whose "classifier." is another one, and what it should have been.
OTHER_CLASSIFIERS = {
    "sequence": (
        ("ForTokenClassification", "ForMultipleChoice"),
        "a classifier of whole sentences",
    ),
    "token": (("ForSequenceClassification", "ForMultipleChoice"), "a classifier of tokens"),
}

# What other heads are called, and the prefixes of their keys.
HEAD_KEYS = {
    "span": ("a head over spans (qa_outputs)", ("qa_outputs.",)),
    "masked_lm": ("a masked-LM head", ("cls.predictions.", "vocab_projector.")),
}


def check_tied(checkpoint: Checkpoint) -> None:
    """Refuses a masked LM whose decoder is not the table of its word vectors."""
    for key, twin in keys.TIED.items():
        decoder, expected = checkpoint.tensors.get(key), checkpoint.tensors.get(twin)
        if decoder is None or expected is None or np.array_equal(decoder, expected):
            continue
        raise errors.WeightsError(
            f"{key} of {checkpoint.folder.name}",
            f"the values of {twin}, which it is tied to",
            "others",
            "A decoder of its own is not supported; pass new_head=True for a new, tied head.",
        )


def has_tensors(checkpoint: Checkpoint, *prefixes: str) -> bool:
    """Checks whether a tensor has a name with one of these beginnings."""
    return any(key.startswith(prefixes) for key in checkpoint.tensors)


def has_head(checkpoint: Checkpoint, kind: str) -> bool:
    """Checks whether a checkpoint has the head of a kind, see `models.Head`.

    Args:
      checkpoint: The checkpoint.
      kind: "sequence", "token", "span" or "masked_lm".
    """
    if kind in OTHER_CLASSIFIERS:
        family = checkpoint.raw_config.get("model_type")
        return has_tensors(checkpoint, classifier_key(str(family), kind))
    return has_tensors(checkpoint, *HEAD_KEYS[kind][1])


def check_head(checkpoint: Checkpoint, what: str, prefixes: tuple[str, ...]) -> None:
    """Refuses a checkpoint without the tensors of a head."""
    if not has_tensors(checkpoint, *prefixes):
        raise errors.WeightsError(
            f"head of {checkpoint.folder.name}",
            what,
            other_head(checkpoint),
            "Name a model that has one: for masked words the one before its fine-tuning "
            "(teacher.general, data.augment.masked_lm). In Python new_head=True starts a new one.",
        )


def other_head(checkpoint: Checkpoint) -> str:
    """Says what a checkpoint has instead of a head that it lacks."""
    if has_tensors(checkpoint, "generator_predictions.", "generator_lm_head."):
        return "the generator of an ELECTRA, which replaces words; a discriminator is fine-tuned"
    return f"none in {checkpoint.raw_config.get('architectures') or 'its tensors'}"


_PROBLEMS = {  # what config.json calls the task of a classifier of whole texts
    "classification": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


def kind_of(folder: str, head: str, num_outputs: int) -> str | None:
    """The kind of task that a checkpoint's head and config.json describe; None of other heads."""
    if head not in OTHER_CLASSIFIERS:
        return head if HEAD_KINDS[head].vectors else None
    if not HEAD_KINDS[head].of_texts:
        return head
    told = read_json(pathlib.Path(folder) / CONFIG_FILE, required=False).get("problem_type")
    usual = "regression" if num_outputs == 1 else "classification"
    return next((kind for kind, problem in _PROBLEMS.items() if problem == told), usual)


_IDENTITY = "torch.nn.modules.linear.Identity"


def check_problem(checkpoint: Checkpoint, task_kind: str) -> None:
    """Refuses a classifier whose config.json says that its outputs mean something else."""
    told, expected = checkpoint.raw_config.get("problem_type"), _PROBLEMS.get(task_kind)
    what = str(checkpoint.folder / CONFIG_FILE)
    if expected is not None and told not in (None, expected):
        raise errors.WeightsError(
            f"{what}, problem_type",
            f"{expected!r}, for a {task_kind} task",
            repr(told),
            "Its outputs answer another kind of task: name that kind, or fine-tune it on this one.",
        )
    if expected is not None:
        _check_cross_encoder(checkpoint, what)


def _check_cross_encoder(checkpoint: Checkpoint, what: str) -> None:
    """Refuses one of sentence-transformers whose scores are not its logits, or with a prompt."""
    block = checkpoint.raw_config.get("sentence_transformers")
    described = read_json(checkpoint.folder / LIBRARY_FILE, required=False)
    is_one = isinstance(block, dict) or described.get("model_type") == "CrossEncoder"
    told = [
        block.get("activation_fn") if isinstance(block, dict) else None,
        checkpoint.raw_config.get("sbert_ce_default_activation_function"),
        described.get("activation_fn"),
    ]
    outputs = checkpoint.raw_config.get("id2label")
    function = next((name for name in told if name not in (None, _IDENTITY)), None)
    if is_one and not any(told) and isinstance(outputs, dict) and len(outputs) == 1:
        function = "none, which is Sigmoid of one output"
    prompts, named = described.get("prompts"), described.get("default_prompt_name")
    prompt = prompts.get(str(named)) if is_one and isinstance(prompts, dict) else None
    if function or prompt:
        raise errors.WeightsError(
            f"{what} or {LIBRARY_FILE}, activation_fn and default_prompt_name",
            f"{_IDENTITY}, so that scores are logits, and no prompt",
            function or repr(prompt),
            "This cross-encoder's scores are a function of its logits or of another text, which "
            "no file of ours computes. Give its answers in a file (`--answers`).",
        )


def check_pairs(checkpoint: Checkpoint) -> None:
    """Refuses a classifier of pairs whose tokenizer gave both texts token type 0."""
    if not checkpoint.types_pairs:
        raise errors.WeightsError(
            f"{checkpoint.folder / reading.CONFIG_FILE}, model_input_names",
            "token_type_ids: the second text of a pair gets type 1",
            "a tokenizer without them: both texts have type 0",
            "If the model was trained with types, add model_input_names with token_type_ids there; "
            "otherwise give its answers in a file (`--answers`), or fine-tune it here.",
        )


def are_unnamed(names: Iterable[tuple[object, object]]) -> bool:
    """Checks whether outputs, (number, name), are LABEL_0 ..., transformers' default names."""
    return all(name == f"LABEL_{number}" for number, name in names)


def output_names(raw_config: Mapping[str, Any]) -> dict[str, str]:
    """The names of a classifier's outputs by number; {} where config.json names none.

    They are those of label2id where id2label does not name them.
    """
    names, numbers = raw_config.get("id2label") or {}, raw_config.get("label2id") or {}
    if isinstance(numbers, dict) and numbers and are_unnamed(names.items()):
        return {str(number): str(name) for name, number in numbers.items()}
    return {str(number): str(name) for number, name in names.items()}


def check_labels(checkpoint: Checkpoint) -> None:
    """Refuses names of outputs that contradict each other."""
    names = output_names(checkpoint.raw_config)
    values = list(names.values())
    if doubled := sorted({name for name in values if values.count(name) > 1}):
        raise errors.WeightsError(
            "config.json id2label",
            "a name of its own for each output",
            f"{', '.join(map(repr, doubled))} for several",
            "Correct the names in the order of the outputs.",
        )
    numbers = checkpoint.raw_config.get("label2id") or {}
    if not isinstance(numbers, dict) or are_unnamed((index, n) for n, index in numbers.items()):
        return
    forwards = {name: index for index, name in names.items()}
    backwards = {str(name): str(index) for name, index in numbers.items()}
    if forwards != backwards:
        differing = sorted(set(forwards.items()) ^ set(backwards.items()))
        raise errors.WeightsError(
            "config.json label2id",
            "the numbers that id2label has",
            f"others, such as {differing[0][0]!r}",
            "Correct the one that is wrong: a wrong order gives wrong answers.",
        )


def classifier_key(family: str, kind: str) -> str:
    """Names the tensor whose rows are the outputs of a classifier."""
    whole = family == "electra" and HEAD_KINDS[kind].of_texts
    return "classifier.out_proj.weight" if whole else "classifier.weight"


def num_labels_of(
    checkpoint: Checkpoint,
    num_labels: int | None,
    has_head: bool,
    kind: str,
    config: models.EncoderConfig,
) -> int:
    """Finds the outputs of a classifier: those of the checkpoint, or those of a new head."""
    what = f"head of {checkpoint.folder.name}"
    if not has_head:
        if num_labels is None:
            raise errors.WeightsError(
                what,
                "a classifier in the checkpoint, or num_labels",
                "neither",
                "Fine-tune it first (`tfdistill finetune`), or pass num_labels=2 (1 for "
                "regression) to start with a head at random.",
            )
        return num_labels
    others, expected = OTHER_CLASSIFIERS[kind]
    told = [str(name) for name in checkpoint.raw_config.get("architectures") or ()]
    if not told and has_tensors(checkpoint, "pre_classifier."):
        told = ["DistilBertForSequenceClassification"]
    for name in told:
        if name.endswith(others):
            raise errors.WeightsError(
                what,
                expected,
                name,
                "Pass num_labels and new_head=True for a new head over the same encoder.",
            )
    rows = checkpoint.tensors[classifier_key(config.family, kind)].shape[0]
    if num_labels not in (None, rows):
        raise errors.WeightsError(
            what,
            f"{num_labels} labels",
            rows,
            "Pass new_head=True for a new head over the same encoder.",
        )
    return rows


def check_size(checkpoint: Checkpoint, config: models.EncoderConfig) -> None:
    """Refuses sizes far beyond the tensors of the file, before anything of that size is built."""
    held = sum(tensor.size for tensor in checkpoint.tensors.values())
    matches = (keys.LAYER.match(key) for key in checkpoint.tensors)
    layers = 1 + max((int(match[1]) for match in matches if match), default=0)
    wanted = models.count_parameters(config)
    if wanted > 2 * held + _SLACK or config.num_layers > layers + _SLACK_LAYERS:
        raise errors.WeightsError(
            f"sizes in {checkpoint.folder / CONFIG_FILE}",
            f"those of the weights: {layers} layers, {held:,} parameters",
            f"{config.num_layers} layers, {wanted:,} parameters",
            "The weights and config.json do not belong together.",
        )


def labels_of(checkpoint: Checkpoint, num_labels: int) -> tuple[str, ...]:
    """Reads the names of a classifier's outputs, LABEL_0 ... where there are none."""
    names = output_names(checkpoint.raw_config)
    told = checkpoint.raw_config.get("num_labels")
    if told not in (None, num_labels):
        raise errors.WeightsError(
            "config.json num_labels", f"{num_labels}, the outputs of the head", repr(told)
        )
    if num_labels == 1:
        return ()
    if not names:
        return tuple(f"LABEL_{index}" for index in range(num_labels))
    if sorted(names) != sorted(map(str, range(num_labels))):
        raise errors.WeightsError(
            "config.json id2label or label2id", f"a name for 0 to {num_labels - 1}", names
        )
    check_labels(checkpoint)
    return tuple(names[str(index)] for index in range(num_labels))
