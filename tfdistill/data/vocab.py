"""WordPiece vocabularies: write, train, compare."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfdistill import errors
from tfdistill.io import files, storage
from tfdistill.tokenization.library import SPECIAL_TOKENS, SUFFIX_INDICATOR
from tfdistill.tokenization.wordpiece import check_vocab, format_vocab, vocabulary_fault

_LONGEST = 50  # characters of a word that the trainer learns from
_GATHERED = 1_000_000  # characters of texts that are split into words together

Path = str | os.PathLike[str]


def write_vocab(tokens: Sequence[str], path: Path) -> None:
    """Writes a vocabulary, checked, so that the file is whole or unchanged."""
    files.atomic_write_text(storage.located(path), format_vocab(tokens))


def check_same_vocabulary(
    left: Sequence[str],
    right: Sequence[str],
    *,
    names: tuple[str, str] = ("teacher", "student"),
) -> None:
    """Refuses the tokens of a teacher and a student that have other ids.

    Equal sizes are not enough: a student that reads other ids than its teacher learns noise. The
    message calls the two by their `names`.
    """
    what, whose = f"{names[1]} vocabulary", f"the {names[0]}'s"
    remedy = f"Give the {names[1]} the vocab.txt of the {names[0]}."
    if fault := vocabulary_fault(what, left, right, whose=whose, remedy=remedy):
        raise errors.VocabularyError(fault)


def train_vocab(
    texts: Iterable[str],
    size: int,
    *,
    lower_case: bool = True,
    reserved: Sequence[str] = SPECIAL_TOKENS,
    max_characters: int | None = None,
) -> list[str]:
    """Learns a WordPiece vocabulary with the trainer of tensorflow-text.

    The words come from `tokenization.words.split_texts`, so the vocabulary fits the tokenizer.
    Every character is a token of its own and, unless the tokenizer always splits it off
    (punctuation, ideographs), a ``##`` suffix: no word of known characters becomes [UNK].

    Texts are taken one after the other, so that they need not fit into memory together. `size` is
    the upper limit of tokens, special ones included; the result may be smaller. `reserved` are the
    first tokens. Only the `max_characters` most frequent characters are kept; words with others
    become [UNK]. The same texts give the same vocabulary.
    """
    return train_from_counts(
        count_words(texts, lower_case=lower_case),
        size,
        reserved=reserved,
        max_characters=max_characters,
    )


def count_words(
    texts: Iterable[str], *, lower_case: bool = True, max_words: int = 5_000_000
) -> collections.Counter[str]:
    """Counts the words of text, in memory that does not grow with it.

    Where more than `max_words` different words are found, the rarest are forgotten until half as
    many are left.
    """
    from tfdistill.tokenization import words as tokenizer_words

    counts: collections.Counter[str] = collections.Counter()
    for lines in _many_lines(texts, tokenizer_words.BATCH):
        counts.update(tokenizer_words.split_texts(lines, lower_case=lower_case))
        if len(counts) > max_words:
            # Equal counts in the order of the alphabet: the same text gives the same words.
            frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[
                : max_words // 2
            ]
            counts = collections.Counter(dict(frequent))
    return counts


def _many_lines(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """Gathers the lines of short texts: a call of TensorFlow costs as much as thousands of them."""
    lines: list[str] = []
    characters = 0
    for text in texts:
        lines += text.split("\n")
        characters += len(text)
        if len(lines) >= most or characters >= _GATHERED:
            yield lines
            lines, characters = [], 0
    if lines:
        yield lines


def train_from_counts(
    counts: Mapping[str, int],
    size: int,
    *,
    reserved: Sequence[str] = SPECIAL_TOKENS,
    max_characters: int | None = None,
) -> list[str]:
    """Learns a vocabulary from word counts, as `train_vocab` does from text."""
    # The trainer's helper in `bert_vocab_from_dataset` uses tensorflow-text's own BertTokenizer,
    # whose words differ from BERT's; the learner behind it takes any word counts.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    if not counts:
        raise errors.DataError("texts for a vocabulary", "at least one word", "none")
    characters: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        if len(word) <= _LONGEST:
            for letter in word:
                characters[letter] += count
    if max_characters is not None:
        ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
        characters = collections.Counter(dict(ranked[:max_characters]))
    words = {word: n for word, n in counts.items() if characters.keys() >= set(word)}
    if max_characters is not None and (max_characters < 1 or not words):
        raise errors.VocabularyError(
            "max_characters", "as many as make up a word of the texts", max_characters
        )
    split_off = _always_split(sorted(characters))
    least = len(reserved) + 2 * len(characters) - len(split_off)
    if size < least:
        raise errors.VocabularyError(
            "vocabulary size",
            f"at least {least} ({len(reserved)} reserved tokens and {len(characters)} "
            f"characters, each alone and, but for {len(split_off)}, as a ## suffix)",
            size,
            "Ask for more tokens, or keep fewer characters.",
        )
    learned = learner.learn(
        words,
        vocab_size=size + len(split_off),
        reserved_tokens=list(reserved),
        lower_thresh=1,
        max_token_length=_LONGEST,
        max_unique_chars=len(characters),
    )
    useless = {SUFFIX_INDICATOR + letter for letter in split_off}
    learned = [token for token in learned if token not in useless]
    tokens = _cut(list(dict.fromkeys([*reserved, *learned])), size, len(reserved))
    check_vocab(tokens, "trained vocabulary")
    return tokens


def _always_split(characters: list[str]) -> set[str]:
    """The characters that the tokenizer never leaves inside a word."""
    import tensorflow as tf

    from tfdistill.tokenization import words as tokenizer_words

    doubled = tf.constant([letter * 2 for letter in characters], tf.string)
    counts = tokenizer_words.split(doubled, lower_case=False).row_lengths().numpy()
    return {letter for letter, count in zip(characters, counts, strict=True) if count > 1}


def _cut(tokens: list[str], size: int, reserved: int) -> list[str]:
    """Drops the rarest tokens beyond `size`, never a character: without it a word is [UNK]."""
    surplus = len(tokens) - size
    remaining = []
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if surplus > 0 and index >= reserved and len(token.removeprefix(SUFFIX_INDICATOR)) > 1:
            surplus -= 1
        else:
            remaining.append(token)
    return remaining[::-1]
