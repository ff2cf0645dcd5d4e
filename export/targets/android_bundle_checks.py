"""The checks that a bundle is its export: `CHECKS`, made before it is put in place."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.io import checks, files
from tfdistill.manifest import FileRecord, Manifest, read_manifest
from tfdistill.tflite import TfliteModel, agreement, golden
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class WrittenBundle:
    """A bundle, the export that it must be, and what follows from the two."""

    folder: pathlib.Path  # of the bundle
    source: pathlib.Path  # the export's folder
    manifest: Manifest  # the export's
    records: Sequence[FileRecord]  # the export's files
    tokens: str  # the name of the file of token vectors

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that an app makes of the bundle alone."""
        tokenizer = self.written_manifest.tokenizer
        assert tokenizer is not None
        return exported_tokenizer(self.folder, tokenizer)

    @functools.cached_property
    def written_manifest(self) -> Manifest:
        """The bundle's manifest."""
        return read_manifest(self.folder, verify=False)


def _files(written: WrittenBundle) -> list[str]:
    """Compares every file with the export's, and the manifest with the export's."""
    faults = []
    for record in written.records:
        for folder in (written.source, written.folder):
            file = folder / record.file
            received = files.sha256_of(file) if file.is_file() else "no such file"
            if received != record.sha256:
                faults.append(errors.explain(f"{file}", f"sha256 {record.sha256}", received))
    if written.written_manifest != written.manifest:
        faults.append(errors.explain("model.json", "the export's", "another"))
    return faults


def _token_vectors(written: WrittenBundle) -> list[str]:
    """Compares the ids of all token vectors with those that the bundle's vocabulary gives."""
    header, *cases = map(json.loads, (written.folder / written.tokens).read_text().splitlines())
    tokenizer = written.tokenizer
    expected = {
        "lower_case": tokenizer.lower_case,
        "vocab_size": tokenizer.vocab_size,
        "num_cases": len(cases),
    }
    received = {name: header.get(name) for name in expected}
    if expected != received:
        return [errors.explain(f"{written.tokens}, first line", expected, received)]
    return _other_ids(written.tokens, tokenizer, cases)


def _other_ids(what: str, tokenizer: Tokenizer, cases: Sequence[dict[str, Any]]) -> list[str]:
    """Tells the first text with other ids, from the tokenizer for single texts."""
    wrong = []
    for case in cases:
        ids = tokenizer.encode(case["text"], case.get("pair"), case["max_length"])
        if ids != case["input_ids"]:
            wrong.append((case, ids))
    if not wrong:
        return []
    case, ids = wrong[0]
    where = f"{what}, {len(wrong)} texts, the first {errors.shortened(case['text'])!r}"
    return [errors.explain(where, f"the ids {ids[:12]}", case["input_ids"][:12])]


def _golden_texts(written: WrittenBundle) -> list[str]:
    """Compares the ids of the golden texts with those that the bundle's vocabulary gives."""
    assert written.written_manifest.tokenizer is not None
    longest = written.written_manifest.tokenizer.max_length
    faults = []
    for manifest in written.written_manifest.each_file():
        if manifest.golden_file is None:
            continue
        name = manifest.golden_file.file
        cases = [
            {**example.as_dict(), "max_length": longest}
            for example in golden.read_golden(written.folder / name)
            if example.text is not None
        ]
        faults += _other_ids(name, written.tokenizer, cases)
    return faults


def _golden_answers(written: WrittenBundle) -> list[str]:
    """Runs every file of the bundle on its golden examples."""
    faults = []
    for manifest in written.written_manifest.each_file():
        if manifest.golden_file is None:
            continue
        examples = golden.read_golden(written.folder / manifest.golden_file.file)
        pairs = []
        with TfliteModel(written.folder / manifest.model.file, isolated=True) as file:
            for example in examples:
                if example.outputs:
                    expected = np.array(example.outputs, np.float64)
                    received = file.predict(example.input_ids, example.token_type_ids)
                    shape = (1, -1) if expected.ndim == 1 else expected.shape
                    pairs.append((expected.reshape(shape), np.reshape(received, shape)))
        floor = float(np.mean([np.sum(expected**2) for expected, _ in pairs])) if pairs else 0.0
        for number, (expected, received) in enumerate(pairs):
            measured = agreement.compare(
                expected, received, decisions=(None, None), floor=floor
            ).sqnr_db
            if measured is not None and not measured >= agreement.GOLDEN_DB:
                where = f"{manifest.golden_file.file}, outputs of example {number}"
                bound = f"those of {manifest.model.file} to {agreement.GOLDEN_DB:g} dB"
                faults.append(errors.explain(where, bound, f"{measured:.1f} dB"))
    return faults


CHECKS = (
    checks.Check("files", _files),
    checks.Check("token vectors", _token_vectors, ("files",)),
    checks.Check("golden texts", _golden_texts, ("files",)),
    checks.Check("golden answers", _golden_answers, ("files",)),
)
