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
    """

    log: str
    passed: frozenset[str]
    skipped: frozenset[str]
    results: pathlib.Path


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles all Kotlin and runs its tests, on real vectors too where there is real data."""
    if not shutil.which("mvn") and not os.environ.get("CI"):
        pytest.skip("no Maven on this machine: scripts/android setup installs it")
    results = tmp_path_factory.mktemp("results")
    options = [f"-Dtfdistill.results={results}"]
    if os.environ.get("TFDISTILL_DATA"):
        options.append(f"-Dtfdistill.vectors={_real_vectors(tmp_path_factory.mktemp('real'))}")
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
    for report in DEMO.glob("*/target/surefire-reports/TEST-*.xml"):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            (skipped if case.find("skipped") is not None else passed).add(name)
    return Build(done.stdout, frozenset(passed), frozenset(skipped), results)


def _real_vectors(folder: pathlib.Path) -> pathlib.Path:
    """Writes the token vectors of SST-2's development set and the nasty texts."""
    from export import token_vectors
    from tfdistill.data import tasks
    from tfdistill.data.tokenize import Tokenizer

    data = pathlib.Path(os.environ["TFDISTILL_DATA"])
    vocab_file = data / "vocab" / "bert-base-uncased-vocab.txt"
    shutil.copyfile(vocab_file, folder / "vocab.txt")
    examples = tasks.load_examples(tasks.task("sst2"), data / "glue" / "SST-2", "dev")
    vectors = token_vectors.token_vectors(Tokenizer(vocab_file), examples, 128)
    (folder / "tokens.jsonl").write_bytes(vectors)
    return folder
