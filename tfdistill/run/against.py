"""A .tflite file of any origin against the Hugging Face folder that it was converted from."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from export.model import graph
from tfdistill import errors, weights
from tfdistill.benchmark import inputs as inputs_of_words
from tfdistill.io import files
from tfdistill.models import heads
from tfdistill.run import against_app, against_rounding
from tfdistill.tflite import agreement, roles
from tfdistill.tflite.agreement import Agreement, Bounds
from tfdistill.tflite.golden import Example
from tfdistill.tflite.model import TfliteModel
from tfdistill.tflite.signature import ROLES, Signature
from tfdistill.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class FolderComparison:
    """A file against a folder."""

    file: str
    folder: str
    lengths: tuple[int, ...]  # that were compared
    num_examples: int
    num_words: int  # entries of the vocabulary among the examples
    # Of each output its "role" in `OUTPUTS`, its "agreement" over all examples (or, of outputs over
    # tokens, over tokens), and the bounds that it breaks, "faults".
    outputs: tuple[dict[str, Any], ...]
    # Those that differ most: "text", "tokens", and "sqnr_db", the lowest of its outputs; None where
    # all are equal bit for bit.
    worst: tuple[dict[str, Any], ...]
    checked: tuple[str, ...]  # what else was compared: "vocabulary", "labels"
    notes: tuple[str, ...]  # what could not be compared, and why
    faults: tuple[str, ...]  # all that speaks against the file; empty for a right conversion


def format_text(comparison: FolderComparison) -> str:
    """Writes a comparison for a terminal, without a final line break."""
    verdict = "DIFFERS" if comparison.faults else "agrees"
    lengths = ", ".join(map(str, comparison.lengths))
    lines = [
        f"{comparison.file} against {comparison.folder}: {verdict} on {comparison.num_examples} "
        f"examples of up to {lengths} tokens, {comparison.num_words} entries of the vocabulary"
    ]
    for parity in comparison.outputs:
        measured: Agreement = parity["agreement"]
        ratio = measured.sqnr_db
        words = [
            f"largest difference {measured.max_abs_error:.3g}",
            "equal bit for bit" if ratio is None else f"SQNR {ratio:.1f} dB",
        ]
        if measured.argmax_agreement is not None:
            words.append(f"argmax agreement {measured.argmax_agreement:.4f}")
        lines.append(f"  {parity['output']} ({parity['role']}): {', '.join(words)}")
    lines += [f"  {what}: as the folder's" for what in comparison.checked]
    for text in comparison.worst:
        sqnr = "equal" if text["sqnr_db"] is None else f"{text['sqnr_db']:.1f} dB"
        lines.append(f"  worst text, {sqnr}: {text['text']!r} [{' '.join(text['tokens'])}]")
    lines += [f"  FAULT: {fault}" for fault in comparison.faults]
    return "\n".join([*lines, *(f"  note: {note}" for note in comparison.notes)])


# What an output can be: role -> the head of the model that has it, and its name there.
OUTPUTS = {
    "logits": ("sequence", ""),
    "scores": ("sequence", ""),
    "start_logits": ("span", ""),
    "end_logits": ("span", ""),
    "last_hidden_state": ("none", "sequence_output"),
    "pooler_output": ("none", "pooled_output"),
    "embedding": ("embedding", ""),
}
_OVER_TOKENS = ("start_logits", "end_logits", "last_hidden_state")
_PROBES = 4  # of each signature that fill it, and as many that do not
_TEXTS = 16  # made of the vocabulary where none are given
_WORST = 3  # texts that are shown
_BATCH = 16
_HARD = ("Crème BRÛLÉE, naïve!", "İstanbul 中文 ok", "don't  stop\tnow")


def compare_with_folder(
    file: files.Path,
    folder: files.Path,
    *,
    tensor_roles: Mapping[str, str] | None = None,
    texts: Sequence[str] = (),
    vocab_file: files.Path | None = None,
    cased: bool | None = None,
    labels_file: files.Path | None = None,
    temperature: float = 1.0,
) -> FolderComparison:
    """Compares what a file answers with the model of a Hugging Face folder.

    Both answer the same token ids: all entries of the vocabulary, inputs that fill each signature
    and shorter ones, both token types, and texts, by default sentences of words of the vocabulary.
    Hidden states of padding do not count.

    `tensor_roles` names what tensors are whose names do not tell it: name -> one of `ROLES` or
    `OUTPUTS`, inputs also by position; none is guessed. `vocab_file`, `cased` and
    `labels_file` (a name a line) are the app's and are compared with the folder's; `temperature` is
    what the file divides its logits by before its softmax.
    """
    path = pathlib.Path(file)
    signatures = roles.read_signatures(path, roles=tensor_roles)
    named = {
        length: _output_roles(entry, tensor_roles or {}) for length, entry in signatures.items()
    }
    kinds = {OUTPUTS[role][0] for by_index in named.values() for role in by_index.values()}
    loaded = _load(folder, kinds, signatures, named)
    if temperature != 1:
        scaled = graph.at_temperature(loaded.model, temperature)
        loaded = dataclasses.replace(loaded, model=scaled)
    tokenizer = weights.existing_tokenizer(loaded.tokenizer, folder)
    examples, num_words = _examples(signatures, tokenizer, loaded, texts)
    pairs = _answer(path, signatures, named, loaded, examples)
    longest = max(examples)
    bounds = against_rounding.bounds_of_outputs(
        path, loaded.model, lambda: _model_outputs(loaded, examples[longest], longest)
    )
    outputs = tuple(
        _parity(output, role, [pair for _, pair in rows], bounds[role])
        for (output, role), rows in pairs.items()
    )
    checked, faults, notes = against_app.check(
        tokenizer,
        loaded.labels,
        [e.text for rows in examples.values() for e in rows if e.text is not None],
        vocab_file=vocab_file,
        cased=cased,
        labels_file=labels_file,
    )
    if any(entry.input_of("attention_mask") is None for entry in signatures.values()):
        notes.append("the file takes no mask: only examples that fill a signature were compared")
    if loaded.config.type_vocab_size > 1 and not _typed(signatures):
        notes.append("the file takes no token types: it was compared on single texts, not on pairs")
    broken = [f"{parity['output']}: {fault}" for parity in outputs for fault in parity["faults"]]
    return FolderComparison(
        file=path.name,
        folder=str(folder),
        lengths=tuple(signatures),
        num_examples=sum(map(len, examples.values())),
        num_words=num_words,
        outputs=outputs,
        worst=_worst(pairs, tokenizer.vocab),
        checked=tuple(checked),
        notes=tuple(notes),
        faults=(*broken, *faults),
    )


def _output_roles(signature: Signature, by_name: Mapping[str, str]) -> dict[int, str]:
    """Finds what each output is: index of the tensor -> role; refuses unknown and equal ones."""
    counts = collections.Counter(tensor.name for tensor in signature.outputs)
    assigned = {}
    for tensor in signature.outputs:
        role = by_name.get(tensor.name) if counts[tensor.name] == 1 else None
        role = role or (tensor.name if tensor.name in OUTPUTS else None)
        if role in OUTPUTS:
            assigned[tensor.index] = role
    unknown = [tensor.name for tensor in signature.outputs if tensor.index not in assigned]
    if unknown or len(set(assigned.values())) < len(assigned) or not assigned:
        raise errors.BenchmarkError(
            f"outputs of signature {signature.key}",
            f"one each of {', '.join(OUTPUTS)}",
            ", ".join(f"{t.name} {list(t.shape)}" for t in signature.outputs) or "none",
            f"Say what each is: --roles {(unknown or ['NAME'])[0]}=logits,...",
        )
    return assigned


def _load(
    folder: files.Path,
    kinds: set[str],
    signatures: Mapping[int, Signature],
    named: Mapping[int, Mapping[int, str]],
) -> weights.LoadedModel:
    """Loads the model whose outputs the file has; refuses those of several models."""
    if len(kinds) > 1:
        raise errors.BenchmarkError(
            "outputs", "those of one model", " and ".join(sorted(kinds)), "Compare them one by one."
        )
    (kind,) = kinds
    length, entry = next(iter(signatures.items()))
    ranks = {len(t.shape) for t in entry.outputs if t.index in named[length]}
    head = heads.KINDS[kind]
    if head.of_texts and head.classifies and ranks == {3}:  # logits of each token
        (kind,) = (k for k, other in heads.KINDS.items() if other.classifies and other.over_tokens)
    return weights.load_model(folder, kind)


def _examples(
    signatures: Mapping[int, Signature],
    tokenizer: Tokenizer,
    loaded: weights.LoadedModel,
    texts: Sequence[str],
) -> tuple[dict[int, list[Example]], int]:
    """Makes the examples of each length, and counts the entries of the vocabulary in them."""
    random = np.random.default_rng(0)
    tables = [entry.vocabulary_rows for entry in signatures.values()]
    rows = min([loaded.config.vocab_size, *filter(None, tables)])
    types = max(1, loaded.config.type_vocab_size) if _typed(signatures) else 1
    longest = max(signatures)
    examples: dict[int, list[Example]] = {}
    for length, entry in signatures.items():
        sizes = [length] * _PROBES
        if entry.input_of("attention_mask") is not None:
            fewest = min(2, length)  # an empty text
            sizes += [fewest, *random.integers(fewest, length, _PROBES - 1).tolist()]
        examples[length] = [
            _example(random.integers(0, rows, size), random, types) for size in sizes
        ]
    words = random.permutation(rows)
    filler = random.integers(0, rows, -len(words) % longest)
    for ids in np.concatenate([words, filler]).reshape(-1, longest):
        examples[longest].append(_example(ids, random, types))
    if any(entry.input_of("attention_mask") is None for entry in signatures.values()):
        return examples, rows
    if not texts:
        sentences = inputs_of_words.examples_of_words(tokenizer, longest, random, _TEXTS)
        texts = [*(sentence.text or "" for sentence in sentences), *_HARD]
    for text in texts:
        ids, types = tokenizer.encode_typed(text, max_length=longest)
        fitting = next(length for length in signatures if len(ids) <= length)
        example = Example(tuple(ids), tuple(types), text)
        examples[fitting].append(example)
    return examples, rows


def _typed(signatures: Mapping[int, Signature]) -> bool:
    return all(entry.input_of("token_type_ids") is not None for entry in signatures.values())


def _example(ids: np.ndarray, random: np.random.Generator, types: int) -> Example:
    """Gives ids the types of two texts."""
    cut = int(random.integers(1, len(ids), endpoint=True))
    second = np.minimum(np.arange(len(ids)) >= cut, types - 1)
    return Example(tuple(ids.tolist()), tuple(second.astype(int).tolist()))


Rows = list[tuple[Example, tuple[np.ndarray, np.ndarray]]]


def _answer(
    path: pathlib.Path,
    signatures: Mapping[int, Signature],
    named: Mapping[int, Mapping[int, str]],
    loaded: weights.LoadedModel,
    examples: Mapping[int, Sequence[Example]],
) -> dict[tuple[str, str], Rows]:
    """Lets model and file answer: (output, role) -> for each example the rows of both."""
    pairs: dict[tuple[str, str], Rows] = collections.defaultdict(list)
    with TfliteModel(path, isolated=True) as model:
        for length, entry in signatures.items():
            reference = _model_outputs(loaded, examples[length], length)
            for number, example in enumerate(examples[length]):
                values = entry.padded(
                    example.input_ids, example.token_type_ids, pad_id=loaded.config.pad_token_id
                )
                outputs = model.run(entry, values)
                for tensor, value in zip(entry.outputs, outputs, strict=True):
                    role = named[length][tensor.index]
                    expected = reference[role][number]
                    received = np.asarray(value, np.float64)[0]
                    if received.shape != expected.shape:
                        raise errors.BenchmarkError(
                            f"output {tensor.name}, {role}", expected.shape, received.shape
                        )
                    if received.ndim == 2 or role in _OVER_TOKENS:
                        tokens = len(example.input_ids)
                        expected, received = expected[:tokens], received[:tokens]
                    both = (expected, received)
                    pairs[tensor.name, role].append((example, both))
    return dict(pairs)


def _model_outputs(
    loaded: weights.LoadedModel, examples: Sequence[Example], length: int
) -> dict[str, np.ndarray]:
    """Returns what the folder's model answers, by role, (examples, ...)."""
    shape = (len(examples), length)
    ids = np.full(shape, loaded.config.pad_token_id, np.int32)
    mask, types = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, example in enumerate(examples):
        count = len(example.input_ids)
        ids[row, :count], mask[row, :count] = example.input_ids, 1
        types[row, :count] = example.token_type_ids
    features = dict(zip(ROLES, (ids, mask, types), strict=True))
    inputs = {name: features[name] for name in loaded.model.input_names}
    parts = []
    for start in range(0, len(examples), _BATCH):
        batch = {name: value[start : start + _BATCH] for name, value in inputs.items()}
        outputs: Any = loaded.model(batch, training=False)
        parts.append(outputs if isinstance(outputs, dict) else {"": outputs})
    joined: dict[str, np.ndarray] = {
        name: np.concatenate([part[name].numpy() for part in parts]).astype(np.float64)
        for name in parts[0]
    }
    if "" not in joined:
        return {role: joined[name] for role, (_, name) in OUTPUTS.items() if name in joined}
    logits = joined[""]
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    by_role = {"logits": logits, "embedding": logits}
    by_role["scores"] = powers / powers.sum(axis=-1, keepdims=True)
    if logits.ndim == 3 and logits.shape[-1] == 2:
        by_role |= {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    return by_role


def _parity(
    output: str, role: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]], bounds: Bounds
) -> dict[str, Any]:
    over_positions = role in ("start_logits", "end_logits")
    sides = [
        np.concatenate([p[i][:, None] if over_positions else np.atleast_2d(p[i]) for p in pairs])
        for i in (0, 1)
    ]
    decisions: Any = None
    if over_positions:
        decisions = [[p[i].argmax() for p in pairs] for i in (0, 1)]
    elif role in ("last_hidden_state", "pooler_output", "embedding"):
        decisions = (None, None)
    measured = agreement.compare(sides[0], sides[1], decisions=decisions)
    faults = tuple(agreement.violations(measured, bounds))
    return {"output": output, "role": role, "agreement": measured, "faults": faults}


def _worst(
    pairs: Mapping[tuple[str, str], Rows], vocab: Sequence[str]
) -> tuple[dict[str, Any], ...]:
    lowest: dict[int, float] = {}
    texts: dict[int, Example] = {}
    for rows in pairs.values():
        for example, (expected, received) in rows:
            if example.text is None:
                continue
            noise = float(np.square(expected - received).sum())
            ratio = agreement.ratio_db(float(np.square(expected).sum()), noise)
            value = np.inf if ratio is None else np.nan_to_num(ratio, nan=-np.inf)
            texts[id(example)] = example
            lowest[id(example)] = min(lowest.get(id(example), np.inf), float(value))
    chosen = sorted(texts, key=lambda key: lowest[key])[:_WORST]
    return tuple(
        {
            "text": texts[key].text or "",
            "tokens": tuple(vocab[i] for i in texts[key].input_ids),
            "sqnr_db": None if np.isinf(lowest[key]) and lowest[key] > 0 else lowest[key],
        }
        for key in chosen
    )
