"""What an app puts around a file, against the folder: vocabulary, lower-casing, tokens, labels."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill import errors, tokenizer_json, weights
from tfdistill.data import vocab as vocabularies
from tfdistill.io import files, reading


def check(
    vocab: Sequence[str],
    loaded: weights.LoadedModel,
    texts: Sequence[str],
    *,
    vocab_file: files.Path | None,
    lower_case: bool | None,
    labels_file: files.Path | None,
) -> tuple[list[str], list[str], list[str]]:
    """Compares vocabulary, case and labels of an app with those of a folder.

    Returns lines about what is right, what is wrong, and what is not known.
    """
    right, wrong, unknown = [], [], []
    case = loaded.lower_case if lower_case is None else lower_case
    case_fault = None
    if case != loaded.lower_case:
        case_fault = errors.explain("lower-casing", loaded.lower_case, case)
    if vocab_file is None:
        unknown.append("the app's vocabulary was not compared: name it with --vocab")
        if case_fault is not None:
            wrong += [case_fault, *_token_fault(vocab, vocab, loaded.lower_case, case, texts)]
    else:
        other = vocabularies.read_vocab(vocab_file)
        fault = _vocabulary_fault(vocab, other) or case_fault
        if fault is None:
            right.append(f"vocabulary, {len(vocab)} entries, and lower-casing")
        else:
            wrong += [fault, *_token_fault(vocab, other, loaded.lower_case, case, texts)]
    if labels_file is not None:
        labels = tuple(reading.read_text(labels_file).splitlines())
        if labels == loaded.labels:
            right.append(f"labels, {len(labels)} in their order")
        else:
            wrong.append(errors.explain("labels", list(loaded.labels), list(labels)))
    elif loaded.labels:
        unknown.append("the app's labels were not compared: name their file with --labels")
    return right, wrong, unknown


def _vocabulary_fault(expected: Sequence[str], received: Sequence[str]) -> str | None:
    if list(expected) == list(received):
        return None
    if len(expected) != len(received):
        return errors.explain("vocabulary", f"{len(expected)} entries", len(received))
    differing = [i for i, (a, b) in enumerate(zip(expected, received, strict=True)) if a != b]
    first = differing[0]
    what = f"vocabulary, {len(differing)} entries, first {first}"
    return errors.explain(what, repr(expected[first]), repr(received[first]))


def _token_fault(
    expected: Sequence[str],
    received: Sequence[str],
    lower_case: bool,
    app_lower_case: bool,
    texts: Sequence[str],
) -> list[str]:
    """Counts the texts that the app tokenizes otherwise; names the first."""
    right = tokenizer_json.build_tokenizer(expected, lower_case=lower_case)
    try:
        app = tokenizer_json.build_tokenizer(received, lower_case=app_lower_case)
    except KeyError:
        return []  # it lacks special tokens, which its first fault says
    differing = [t for t in texts if right.encode(t).ids != app.encode(t).ids]
    if not differing:
        return []
    first = differing[0]
    return [
        errors.explain(
            f"tokens of {len(differing)} of {len(texts)} texts, first {first!r}",
            " ".join(right.encode(first).tokens),
            " ".join(app.encode(first).tokens),
        )
    ]
