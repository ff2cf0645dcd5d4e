"""data: prepare corpora, vocabularies and training sets."""

from __future__ import annotations

from tfdistill.commands import augment, base, pretraining

_ACTIONS = (*pretraining.DATA_ACTIONS, *augment.DATA_ACTIONS)

COMMANDS = (
    base.Command(
        name="data",
        summary="prepare corpora, vocabularies and training sets",
        actions=_ACTIONS,
        examples=tuple(action.examples[0] for action in _ACTIONS[:2]),
    ),
)
