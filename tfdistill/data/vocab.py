"""WordPiece vocabularies: read, write, train, compare."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Iterable, Sequence

from tfdistill import errors, files

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SUFFIX_INDICATOR = "##"
_LONGEST = 50  # characters of a word that the trainer learns from

Path = str | os.PathLike[str]


def read_vocab(path: Path) -> list[str]:
    """Reads a vocabulary: one token a line, the id of a token is its line (from 0).

    Args:
      path: A `vocab.txt` in UTF-8.

    Returns:
      The tokens in the order of their ids.

    Raises:
      VocabularyError: If the file is missing, is not UTF-8, has an empty line or the same token
        twice, or lacks one of `SPECIAL_TOKENS`.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise errors.VocabularyError(
            errors.explain(
                "vocabulary",
                "a file with one token a line",
                f"{str(file)!r}, which is not a file",
                "A Hugging Face model folder holds it as vocab.txt.",
            )
        )
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.VocabularyError(
            errors.explain(f"vocabulary {file}", "UTF-8 text", f"other bytes ({error})")
        ) from None
    # Not splitlines(): real vocabularies hold U+2028 as a token.
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    check_vocab(tokens, str(file))
    return tokens


def check_vocab(tokens: Sequence[str], name: str = "vocabulary") -> None:
    """Checks that tokens form a usable BERT vocabulary.

    Args:
      tokens: Tokens in the order of their ids.
      name: What to call it in a message, for example its path.

    Raises:
      VocabularyError: On an empty or repeated token, or a missing special token.
    """
    first: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if not token:
            received = "an empty file" if len(tokens) == 1 else f"an empty line {line}"
            raise errors.VocabularyError(
                errors.explain(name, "one token on each line", received, "Remove the empty line.")
            )
        if token in first:
            raise errors.VocabularyError(
                errors.explain(
                    name,
                    "each token once",
                    f"{token!r} on lines {first[token]} and {line}",
                    "An id must belong to one token.",
                )
            )
        first[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first]
    if missing:
        raise errors.VocabularyError(
            errors.explain(
                name,
                f"the special tokens {' '.join(SPECIAL_TOKENS)}",
                f"{len(tokens)} tokens without {' '.join(missing)}",
                "Is this the vocab.txt of a BERT model?",
            )
        )


def write_vocab(tokens: Sequence[str], path: Path) -> None:
    """Writes a vocabulary, checked, so that the file is whole or unchanged.

    Args:
      tokens: Tokens in the order of their ids.
      path: The file to write.

    Raises:
      VocabularyError: If the tokens are not a usable vocabulary, or one holds a line break.
    """
    check_vocab(tokens)
    for index, token in enumerate(tokens):
        if "\n" in token or "\r" in token:
            raise errors.VocabularyError(
                errors.explain("vocabulary", "tokens on one line", f"{token!r} as id {index}")
            )
    files.atomic_write_text(path, "\n".join(tokens) + "\n")


def check_same_vocabulary(teacher: Path | Sequence[str], student: Path | Sequence[str]) -> None:
    """Checks that teacher and student give every token the same id.

    Equal sizes are not enough: a student that reads other ids than its teacher learns noise.

    Args:
      teacher: A vocabulary file, or its tokens.
      student: A vocabulary file, or its tokens.

    Raises:
      VocabularyError: If they differ; the message names the first id that differs.
    """
    first, second = (
        read_vocab(value) if isinstance(value, (str, os.PathLike)) else list(value)
        for value in (teacher, student)
    )
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            raise errors.VocabularyError(
                errors.explain(
                    f"student vocabulary, id {index} (line {index + 1})",
                    f"{left!r} as in the teacher's",
                    repr(right),
                    "Build the student with the teacher's vocab.txt.",
                )
            )
    if len(first) != len(second):
        index = min(len(first), len(second))
        longer, token = (
            ("teacher", first[index]) if len(first) > len(second) else ("student", second[index])
        )
        raise errors.VocabularyError(
            errors.explain(
                "student vocabulary",
                f"{len(first)} tokens as in the teacher's",
                f"{len(second)}; from id {index} ({token!r}) on only the {longer} has tokens",
                "Build the student with the teacher's vocab.txt.",
            )
        )


def train_vocab(
    texts: Iterable[str],
    size: int,
    *,
    lower_case: bool = True,
    reserved: Sequence[str] = SPECIAL_TOKENS,
) -> list[str]:
    """Learns a WordPiece vocabulary with the trainer of tensorflow-text.

    The words are those of `data.tokenize.split_words`, so the vocabulary fits the tokenizer.

    Args:
      texts: Sentences.
      size: The upper limit of tokens, special tokens included; the result may be smaller.
      lower_case: Whether the tokenizer will lower-case.
      reserved: The first tokens of the vocabulary.

    Returns:
      The tokens in the order of their ids. The same texts give the same vocabulary.

    Raises:
      DataError: If `texts` hold no word.
      VocabularyError: If `size` has no room for the reserved tokens and all characters.
    """
    # The trainer's helper in `bert_vocab_from_dataset` uses tensorflow-text's own BertTokenizer,
    # whose words differ from BERT's; the learner behind it takes any word counts.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    from tfdistill.data import tokenize

    counts = collections.Counter(tokenize.split_words(list(texts), lower_case=lower_case))
    if not counts:
        raise errors.DataError(
            errors.explain("texts for a vocabulary", "at least one word", "none")
        )
    characters = {letter for word in counts if len(word) <= _LONGEST for letter in word}
    least = len(reserved) + 2 * len(characters)
    if size < least:
        raise errors.VocabularyError(
            errors.explain(
                "vocabulary size",
                f"at least {least} ({len(reserved)} reserved tokens and {len(characters)} "
                "characters, each alone and as a ## suffix)",
                size,
            )
        )
    learned = learner.learn(
        dict(counts),
        vocab_size=size,
        reserved_tokens=list(reserved),
        lower_thresh=1,
        max_token_length=_LONGEST,
        max_unique_chars=len(characters),
    )
    tokens = _cut(list(dict.fromkeys([*reserved, *learned])), size, len(reserved))
    check_vocab(tokens, "trained vocabulary")
    return tokens


def _cut(tokens: list[str], size: int, reserved: int) -> list[str]:
    """Drops the rarest tokens beyond `size`, never a character: without it a word is [UNK]."""
    surplus = len(tokens) - size
    kept = []
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if surplus > 0 and index >= reserved and len(token.removeprefix(SUFFIX_INDICATOR)) > 1:
            surplus -= 1
        else:
            kept.append(token)
    return kept[::-1]
