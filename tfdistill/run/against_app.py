"""What an app puts around a file, against the folder: vocabulary, lower-casing, tokens, labels."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill import errors
from tfdistill.io import files, reading
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.tokenization.wordpiece import vocabulary_fault


def check(
    tokenizer: Tokenizer,
    names: Sequence[str],
    texts: Sequence[str],
    *,
    vocab_file: files.Path | None,
    cased: bool | None,
    labels_file: files.Path | None,
) -> tuple[list[str], list[str], list[str]]:
    """Compares vocabulary, case and labels of an app with `tokenizer` and `names` of a folder.

    Returns lines about what is right, what is wrong, and what is not known.
    """
    right, wrong, unknown = [], [], []
    whole = tokenizer if vocab_file is None else read_tokenizer(vocab_file, tokenizer.lower_case)
    case = None if cased is None else not cased
    app = whole.subset(range(whole.vocab_size)).replace(lower_case=case)
    fault = vocabulary_fault("vocabulary", tokenizer.vocab, app.vocab)
    if not fault and app.lower_case != tokenizer.lower_case:
        fault = errors.explain("lower-casing", tokenizer.lower_case, app.lower_case)
    if fault:
        wrong += [fault, *_token_fault(tokenizer, app, texts)]
    elif vocab_file is not None:
        right.append(f"vocabulary, {tokenizer.vocab_size} entries, and lower-casing")
    if vocab_file is None:
        unknown.append("the app's vocabulary was not compared: name it with --vocab")
    if labels_file is not None:
        labels = tuple(reading.read_text(labels_file).splitlines())
        if labels == tuple(names):
            right.append(f"labels, {len(labels)} in their order")
        else:
            wrong.append(errors.explain("labels", list(names), list(labels)))
    elif names:
        unknown.append("the app's labels were not compared: name their file with --labels")
    return right, wrong, unknown


def _token_fault(tokenizer: Tokenizer, app: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Counts the texts that the app tokenizes otherwise; names the first."""
    differing = [t for t in texts if _encoded(tokenizer, t) != _encoded(app, t)]
    if not differing:
        return []
    first = differing[0]
    return [
        errors.explain(
            f"tokens of {len(differing)} of {len(texts)} texts, first {first!r}",
            " ".join(tokenizer.vocab[i] for i in _encoded(tokenizer, first)),
            " ".join(app.vocab[i] for i in _encoded(app, first)),
        )
    ]


def _encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, max_length=2 * len(text) + 9)  # nothing is cut
