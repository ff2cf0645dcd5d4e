"""Whether the head and the sizes of a checkpoint are those that are asked for."""

from __future__ import annotations

import numpy as np

from tfdistill import errors, models
from tfdistill.weights import keys
from tfdistill.weights.checkpoint import CONFIG_FILE, Checkpoint

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
    """Whether a tensor has a name with one of these beginnings."""
    return any(key.startswith(prefixes) for key in checkpoint.tensors)


def has_head(checkpoint: Checkpoint, kind: str) -> bool:
    """Whether a checkpoint has the head of a kind, see `models.Head`.

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
            f"none in {checkpoint.raw_config.get('architectures') or 'its tensors'}",
            "Pass new_head=True to start with a head at random.",
        )


def classifier_key(family: str, kind: str) -> str:
    """Names the tensor whose rows are the outputs of a classifier."""
    whole = family == "electra" and kind == "sequence"
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
    told = checkpoint.raw_config.get("architectures") or ()
    if not told and has_tensors(checkpoint, "pre_classifier."):
        told = ("DistilBertForSequenceClassification",)
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
    found = (keys.LAYER.match(key) for key in checkpoint.tensors)
    layers = 1 + max((int(match[1]) for match in found if match), default=0)
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
    names = checkpoint.raw_config.get("id2label") or {}
    if num_labels == 1:
        return ()
    if not names:
        return tuple(f"LABEL_{index}" for index in range(num_labels))
    if sorted(map(str, names)) != sorted(map(str, range(num_labels))):
        raise errors.WeightsError(
            "config.json id2label", f"a name for 0 to {num_labels - 1}", names
        )
    return tuple(str(names[str(index)]) for index in range(num_labels))
