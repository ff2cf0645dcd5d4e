"""The build of android_demo without Android Studio, run once."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DEMO = ROOT / "android_demo"
LONGEST_S = 1200


@dataclasses.dataclass(frozen=True)
class Build:
    """A finished build.

    Attributes:
      log: What Maven said.
      passed: Names of the tests that passed, "Class.method".
      skipped: Names of those that did not run.
      results: Folder of the files that tests wrote for this side to read.
      bundles: Folder of assets with a student of SST-2; None without real data.
    """

    log: str
    passed: frozenset[str]
    skipped: frozenset[str]
    results: pathlib.Path
    bundles: pathlib.Path | None


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles all Kotlin and runs its tests, on real vectors too where there is real data."""
    if not shutil.which("mvn") and not os.environ.get("CI"):
        pytest.skip("no Maven on this machine: scripts/android setup installs it")
    results = tmp_path_factory.mktemp("results")
    options = [f"-Dtfdistill.results={results}"]
    bundles = None
    if os.environ.get("TFDISTILL_DATA"):
        options.append(f"-Dtfdistill.vectors={_real_vectors(tmp_path_factory.mktemp('real'))}")
        bundles = _real_bundles(tmp_path_factory.mktemp("student"))
        options.append(f"-Dtfdistill.bundles={bundles}")
    done = subprocess.run(
        [ROOT / "scripts" / "android", "test", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]

    passed, skipped = set(), set()
    for report in DEMO.glob("ci/maven/*/target/surefire-reports/TEST-*.xml"):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            (skipped if case.find("skipped") is not None else passed).add(name)
    return Build(done.stdout, frozenset(passed), frozenset(skipped), results, bundles)


def _real_vectors(folder: pathlib.Path) -> pathlib.Path:
    """Writes the token vectors of SST-2's development set and the edge cases."""
    from export.targets import token_vectors
    from tfdistill import tasks
    from tfdistill.tokenization.reading import read_tokenizer

    data = pathlib.Path(os.environ["TFDISTILL_DATA"])
    vocab_file = data / "vocab" / "bert-base-uncased-vocab.txt"
    shutil.copyfile(vocab_file, folder / "vocab.txt")
    examples = tasks.load_examples(tasks.task("sst2"), data / "glue" / "SST-2", "dev")
    vectors = token_vectors.token_vectors(read_tokenizer(vocab_file), examples, 128)
    (folder / "tokens.jsonl").write_bytes(vectors)
    return folder


def _real_bundles(folder: pathlib.Path) -> pathlib.Path:
    """Exports a small student of SST-2 with BERT's vocabulary, its weights drawn, as a bundle."""
    from test_android import vectors

    import export
    from export.targets import token_vectors
    from tfdistill import models, tasks
    from tfdistill.data.batches import encode_examples
    from tfdistill.tokenization import edge_cases
    from tfdistill.tokenization.reading import read_tokenizer

    data = pathlib.Path(os.environ["TFDISTILL_DATA"])
    vocab_file = data / "vocab" / "bert-base-uncased-vocab.txt"
    tokenizer = read_tokenizer(vocab_file)
    task = tasks.task("sst2")
    examples = tasks.load_examples(task, data / "glue" / "SST-2", "dev")
    few = examples.select(range(64))
    shape = vectors.encoder().replace(vocab_size=tokenizer.vocab_size, max_positions=64)
    student = folder / "student" / "model.tflite"
    student.parent.mkdir()
    export.to_tflite(
        vectors.lively(models.build_classifier(shape, 2), 4),
        student,
        quantize="float32",
        lengths=(32, 64),
        check_on=encode_examples(few, tokenizer, 64),
        texts=few,
        task=task,
        tokenizer=vocab_file,
    )
    # The edge cases are those of the same vocabulary, which _real_vectors holds.
    with pytest.MonkeyPatch.context() as patch:
        few = edge_cases.tokenizer_edge_cases()[::80]
        patch.setattr(token_vectors, "tokenizer_edge_cases", lambda: few)
        export.to_android(student, folder / "assets", texts=examples)
    return folder / "assets"
