"""The section of a recipe that cuts a vocabulary of many languages to those of an app."""

from __future__ import annotations

from typing import Annotated

import pydantic

from tfdistill.config.schema import Section, described, each_once
from tfdistill.config.training import PathText


class CutConfig(Section):
    """The pieces that a run keeps of its teacher's vocabulary, before all else.

    They are those that the training and unlabelled texts use, each character of their scripts, and
    as many of the most frequent words of languages as there is room for. Without languages, words
    that these texts lack are cut into smaller pieces.
    """

    languages: Annotated[tuple[str, ...], pydantic.AfterValidator(each_once)] = described(
        (),
        "languages of future texts, such as de,hi: the vocabulary is cut to their 80,000 most "
        "frequent words (needs tfdistill[languages])",
    )
    languages_of: PathText | None = described(
        None,
        "plain text in the language of future texts; the vocabulary is cut to its words",
    )
    vocab_size: int | None = pydantic.Field(
        default=None,
        gt=0,
        description="maximum number of pieces (default: 16,000 a language, or what the budget "
        "allows)",
    )
