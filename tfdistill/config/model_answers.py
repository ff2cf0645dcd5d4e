"""The section of a recipe about the answers of a model that stand beside the labels of texts."""

from __future__ import annotations

from typing import Literal

from tfdistill.config.schema import Section, described


class ModelAnswersConfig(Section):
    """The answers of a model in the files of the splits, beside what is learnt.

    The column of labels holds what is learnt. `quickstart` writes the answers into the column
    ``model_answer``, and gold labels, where there are any, into ``gold_label``.
    """

    answer_column: str = described(
        "model_answer", "column with a model's answers; blank cells are unlabelled texts"
    )
    learn: Literal["gold", "answers"] = described(
        "gold", "what is learnt where a text has a gold label and an answer"
    )
    abstains: str | None = described(
        None, "the answer that the model knows none: such texts have no label, like --other"
    )
    answered_by: str | None = described(None, "the model that gave the answers, and its version")
    drop_suspects: bool = described(
        False, "train without the rows that suspects.csv lists, one in 40"
    )
