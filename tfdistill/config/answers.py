"""Sections of a recipe about answers of models: of a teacher, and beside the labels of texts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.config.schema import Section, described
from tfdistill.config.training import PathText


class AnswersConfig(Section):
    """Files with a teacher's answers; a plain list names the files.

    Several files are an ensemble: the mean of their probabilities, each of logits divided by its
    temperature. With `missing: gold` a text that a file leaves out is learnt from its gold label
    alone, and one without a label is dropped.
    """

    files: tuple[PathText, ...] = described(
        ..., "a teacher's answers to the texts: .jsonl, .csv or .parquet", min_length=1
    )
    temperatures: tuple[Annotated[float, pydantic.Field(gt=0)], ...] = ()
    missing: Literal["refuse", "gold"] = "refuse"

    @pydantic.model_validator(mode="before")
    @classmethod
    def _listed(cls, values: Any) -> Any:
        return {"files": values} if isinstance(values, (list, tuple)) else values

    @pydantic.model_validator(mode="after")
    def _one_temperature_each(self) -> AnswersConfig:
        if self.temperatures and len(self.temperatures) != len(self.files):
            expected = f"one for each of the {len(self.files)} files"
            raise ValueError(
                errors.explain("temperatures", expected, f"{len(self.temperatures)} of them")
            )
        return self


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
