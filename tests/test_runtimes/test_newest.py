"""Folders of the newest transformers and sentence-transformers are read here, and ours there.

scripts/runtimes sets their environment up, of 4.3 GB. Without it the tests are skipped, except in
scripts/nightly.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import toys
from random_texts import random_texts

from tfdistill import errors, models, weights
from tfdistill.tokenization.reading import read_tokenizer, read_vocab

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
# Sums of a matrix product are taken in another order: float32 differs by some 1e-6.
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="session")
def newest(need_runtime):
    """The Python of the environment with the newest transformers, and its variables."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return need_runtime("newest/bin/python"), variables


@pytest.fixture(scope="session")
def ask(newest, tmp_path_factory):
    """One process of in_newest.py, whose imports take long: job -> answer."""
    python, variables = newest
    errors_file = tmp_path_factory.mktemp("newest") / "stderr"
    with (
        errors_file.open("w") as stderr,
        subprocess.Popen(
            [python, HERE / "in_newest.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=variables,
        ) as process,
    ):

        def answer(**job):
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            for line in process.stdout:  # a library may print too
                if line.startswith("answer: "):
                    return json.loads(line.removeprefix("answer: "))
            raise AssertionError(errors_file.read_text()[-3000:])

        yield answer
        process.kill()  # nothing is left to write, and the end of PyTorch takes seconds


@pytest.fixture(scope="session")
def folders(ask, tmp_path_factory):
    """The folders that in_newest.py makes."""
    folder = tmp_path_factory.mktemp("newest") / "folders"
    ask(make=str(folder))
    return folder


def answers_of(loaded, ids):
    rows = []
    for row in ids:
        tokens = np.array([row], np.int32)
        features = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        features["token_type_ids"] = np.zeros_like(tokens)
        answer = loaded.model({name: features[name] for name in loaded.model.input})
        rows.append(np.asarray(answer)[0])
    return np.array(rows)


@pytest.mark.parametrize("name", ["bert", "distilbert", "electra", "cross", "mean", "dense"])
def test_a_folder_of_today_has_the_same_ids_and_answers_here(name, folders):
    folder = folders / name
    assert not (folder / "vocab.txt").exists()
    embeds = weights.has_modules(folder)
    assert embeds == (name in ("mean", "dense"))
    loaded = (weights.load_embedder if embeds else weights.load_classifier)(folder)
    expected = json.loads((folder / "expected.json").read_text())
    tokenizer = loaded.tokenizer
    ids = [tokenizer.encode(text, max_length=loaded.max_length) for text in expected["texts"]]
    assert ids == expected["ids"]
    np.testing.assert_allclose(answers_of(loaded, ids), expected["answers"], **CLOSE)


def test_added_tokens_of_today_are_refused_by_name(folders):
    with pytest.raises(errors.WeightsError, match=r"2 added: '\[E11\]', '\[E12\]'"):
        weights.load_classifier(folders / "added")


def families():
    """Yields each family with one case, and with the other for those who have the time."""
    varied = ("distilbert", "mobilebert", "electra")
    for number, family in enumerate(("bert", "distilbert", "mobilebert", "electra", "embedding")):
        for lower_case in (True, False):
            other = lower_case == bool(number % 2) or family in varied
            marks = [pytest.mark.thorough] if other else []
            yield pytest.param(family, lower_case, marks=marks)


@pytest.mark.parametrize(("family", "lower_case"), [*families()])
def test_a_written_folder_has_the_same_ids_and_answers_there(
    family, lower_case, ask, toy_vocab_file, tmp_path
):
    if family == "mobilebert":
        config = models.preset("mobilebert_tiny").replace(
            num_layers=2, vocab_size=len(read_vocab(toy_vocab_file))
        )
    else:
        config = toys.STUDENT.replace(
            vocab_size=len(read_vocab(toy_vocab_file)),
            family="bert" if family == "embedding" else family,
            max_positions=64,
            layer_norm_eps=1e-12,
            **({"type_vocab_size": 0} if family == "distilbert" else {}),
            **({} if family == "bert" else {"pooler": False}),
        )
    head = models.Head("embedding") if family == "embedding" else models.Head("sequence", 3)
    # Nothing bounds the states of a MobileBERT: its layers only scale and shift them.
    scale = 0.02 if family == "mobilebert" else 0.3
    model = toys.randomise(models.build_model(config, head), scale=scale)
    folder = weights.save_hf(
        model, tmp_path / "hf", tokenizer=read_tokenizer(toy_vocab_file, lower_case=lower_case)
    )
    texts = tmp_path / "texts.json"
    drawn = random_texts(20_000 if family == "bert" else 2_000)  # one tokenizer has them all
    # The first ones are answered as well, and a special token that is typed is one there.
    drawn[:50] = [text.replace("[", "(")[:40] for text in drawn[:50]]
    texts.write_text(json.dumps(drawn))

    received = ask(read=str(folder), texts=str(texts))

    encoded = read_tokenizer(toy_vocab_file, lower_case).encode_batch(drawn, None, 10_000)
    rows = [encoded.row(index).tolist() for index in range(len(drawn))]
    assert [index for index, row in enumerate(rows) if row != received["ids"][index]] == []
    cut = [row if len(row) <= 64 else [*row[:63], row[-1]] for row in rows[:50]]
    loaded = (weights.load_embedder if family == "embedding" else weights.load_classifier)(folder)
    np.testing.assert_allclose(answers_of(loaded, cut), received["answers"], **CLOSE)


@pytest.mark.thorough
def test_a_joint_stage_of_pytorch_has_our_loss_and_is_timed(need_runtime, tmp_path):
    need_runtime("newest/bin/python")
    command = [sys.executable, ROOT / "scripts" / "benchmarks", "training", "--torch", "--quick"]
    done = subprocess.run(
        [*command, "--out", tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "training.json").read_text())
    timed = {
        f"{who} {arithmetic}"
        for who in ("tfdistill", "pytorch")
        for arithmetic in ("float32", "bfloat16")
    }
    assert record["samples"]["joint_stage"]["seconds"].keys() == timed
    assert sum("PyTorch" in figure["name"] for figure in record["figures"]) == 3


@pytest.mark.thorough
def test_the_product_runs_beside_the_newest_transformers(newest):
    python, variables = newest
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    tests = (
        *("-k", "not planted_fault"),  # they are found without transformers
        "tests/test_weights/test_tokenizers.py",
        "tests/test_weights/test_sentence_modules.py",
        "tests/test_weights/test_checkpoint.py::test_a_saved_classifier_comes_back_whole",
        "tests/test_weights/test_folder_checks.py",
        # Whole runs, from a folder to a folder; what others vary is not what transformers does.
        "tests/test_run/test_soft_labels.py::test_a_student_of_a_file_is_that_of_the_same_numbers_in_memory_to_the_bit",
    )
    done = subprocess.run(
        [python, *arguments, *tests],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=ROOT,
        env=variables,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
