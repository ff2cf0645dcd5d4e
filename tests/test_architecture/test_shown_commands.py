"""The commands that tutorials and guides show run one after the other, at toy size."""

import contextlib
import csv
import io
import itertools
import pathlib
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
import toys
import unigrams

from tfdistill import cli, models, weights
from tfdistill.data import vocab
from tfdistill.tokenization import unigram

ROOT = pathlib.Path(__file__).parents[2]
ROUTER = ROOT / "docs" / "tutorials" / "router.md"
LANGUAGES = ROUTER.with_name("languages.md")
GUIDES = ROOT / "docs" / "guides"
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
WIDTH = 32


def settings(*values: str) -> list[str]:
    return [part for value in values for part in ("--set", value)]


# What toys need beyond the page, by the command.
MORE = {
    "quickstart": settings(
        *("benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1"),
    ),
    "benchmark": ["--runs", "10", "--min-seconds", "0", "--repetitions", "1"],
}


def shown_lines(page: pathlib.Path) -> list[str]:
    """Returns the lines of the console blocks of a page, without comments."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def taught_words(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Vectors of the words of the tables: the mean of a random vector of each intent they name."""
    random = np.random.default_rng(0)
    directions, vectors = {}, {}
    for path in sorted(folder.glob("*.csv")):
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                direction = directions.setdefault(row["intent"], random.normal(size=WIDTH))
                for word in re.findall(r"\w+", row["phrase"].lower()):
                    vectors.setdefault(word, []).append(direction)
    return {word: np.mean(those, axis=0) for word, those in vectors.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the router's page, and a sentence encoder that knows what their words mean."""
    tmp_path = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROUTER.with_suffix(""), tmp_path, dirs_exist_ok=True)
    words = taught_words(tmp_path)
    tokens = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *words]
    vocab.write_vocab(tokens, tmp_path / "vocab.txt")
    shape = toys.SHALLOW_STUDENT.replace(
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        vocab_size=len(tokens),
        max_positions=64,
        pooler=False,
    )
    encoder = models.build_embedder(shape, pooling="mean")
    (table,) = [one for one in encoder.weights if one.shape == (len(tokens), WIDTH)]
    table.assign(np.concatenate([np.zeros((5, WIDTH)), np.stack(list(words.values()))]))
    weights.save_hf(encoder, tmp_path / "toy-encoder", tokenizer=tmp_path / "vocab.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield tmp_path


def run(line: str, *more: str) -> str:
    """Runs a line of a page, with the toy for its encoder; returns what it prints."""
    if not line.startswith("tfdistill "):
        subprocess.run(line, shell=True, check=True)
        return ""
    _, *command = shlex.split(line.replace(ENCODER, "toy-encoder"))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*command, *MORE.get(command[0], ()), *more])
    assert code == 0, f"{line}\n{err.getvalue()}"
    return out.getvalue()


@pytest.fixture(scope="module")
def router(folder):
    """Line -> what it printed, of the whole page."""
    return {line: run(line) for line in shown_lines(ROUTER)}


@pytest.mark.slow
def test_every_command_of_the_router_runs(router, folder):
    assert len(router) == 16
    answers = [out.splitlines() for line, out in router.items() if "--max-error" in line]
    assert [len(lines) for lines in answers] == [3, 40]
    assert all(line.split("  ")[2] in ("sure", "not sure") for line in answers[0])
    promises = [out for line, out in router.items() if "--promise-on" in line]
    assert [out.count("of the sure answers wrong: ") for out in promises] == [4, 4]
    assert [out.count("of all requests sure and unlike") for out in promises] == [0, 4]
    (agreed,) = [out for line, out in router.items() if "--max-disagreement" in line]
    assert all(line.split("  ")[2] in ("sure", "not sure") for line in agreed.splitlines())
    (accuracy,) = re.findall(r"accuracy: (\S+)", "".join(router.values()))
    assert float(accuracy) > 0.5  # by far more than one of 23
    (routed,) = [out for line, out in router.items() if "--query" in line]
    assert re.search("^label: ", routed, re.M) and routed.count(" -> ") == 5
    opened = re.findall(r'assets, "([\w-]+)"', ROUTER.read_text("utf-8"))
    bundles = folder / "app" / "src" / "main" / "assets" / "bundles"
    assert (bundles / opened[0] / "model.tflite").is_file()  # as the page's Kotlin calls it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "part", "count"),
    [
        ("unsure", "predict runs/intents", 2),
        ("export", "inspect runs/sst2/export", 1),
        ("benchmark", "report runs/sst2", 1),
        ("benchmark", "benchmark runs/sst2 --threads", 1),
        ("getting-started", "recipes ", 3),
    ],
)
def test_the_commands_of_the_guides_that_read_a_run_take_it(page, part, count, router, folder):
    (folder / "texts.txt").write_text("wake me at seven\nplay some jazz\n", encoding="utf-8")
    for name in ("intents", "sst2"):
        link = folder / "runs" / name
        if not link.is_symlink():
            link.symlink_to(folder / "runs" / "router")
    lines = [
        line
        for line in shown_lines(GUIDES / f"{page}.md")
        if line.startswith(f"tfdistill {part}")
        and "--against" not in line  # of a run with a student
        and "--device" not in line
    ]
    assert len(lines) == count
    for line in lines:
        assert run(line)


@pytest.fixture
def many_languages(tmp_path, monkeypatch):
    """Sentences of two languages in the folders of SIB-200, and an encoder of more."""
    words = {"deu_Latn": ("gut", "schlecht"), "hin_Deva": ("अच्छा", "फिल्म")}
    for folder, (good, dull) in words.items():
        part = tmp_path / "sib200" / folder
        part.mkdir(parents=True)
        rows = [
            (" ".join(order), label)
            for label, word in (("sports", good), ("travel", dull))
            for order in itertools.product((word, "film", "nicht"), repeat=4)
            if word in order
        ]
        lines = [f"{number}\t{label}\t{text}" for number, (text, label) in enumerate(rows)]
        table = "\n".join(["index_id\tcategory\ttext", *lines]) + "\n"
        for name in ("train", "test"):
            (part / f"{name}.tsv").write_text(table, encoding="utf-8")
    tokenizer = unigrams.unigram()
    shape = toys.SHALLOW_TEACHER.replace(
        vocab_size=tokenizer.vocab_size, pad_token_id=1, max_positions=48, pooler=False
    )
    encoder = toys.randomise(models.build_embedder(shape, pooling="mean"), 1)
    weights.save_hf(encoder, tmp_path / "multilingual-e5-small", tokenizer=tokenizer, max_length=40)
    monkeypatch.setattr(unigram, "_OF_MANY_LANGUAGES", 50)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_german_and_hindi_become_a_file(many_languages):
    (code,) = re.findall(r"^```python\n(.*?)^```", LANGUAGES.read_text("utf-8"), re.M | re.S)
    assert len(code.strip().splitlines()) <= 10
    (many_languages / "topics.py").write_text(code, encoding="utf-8")
    allowed = settings("teacher.allow_weak=true")
    printed = [
        run(line, *(allowed if " quickstart " in line else ())) for line in shown_lines(LANGUAGES)
    ]
    assert len(printed) == 5
    with open(many_languages / "topics.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["language"] for row in rows} == {"de", "hi"}
