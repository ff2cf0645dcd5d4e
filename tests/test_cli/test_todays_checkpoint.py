"""Commands that open a checkpoint take one as transformers 5 saves it, without a vocab.txt."""

import pytest
import toys

from tfdistill import cli, models, weights
from tfdistill.tokenization.reading import read_vocab

LABELS = ("good", "bad")
TASK = (
    *("--task", "toy", "--text-column", "text", "--label-column", "label"),
    *("--max-length", "12"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    """A classifier in `bert` and a masked language model in `words`, with data for them."""
    folder = tmp_path_factory.mktemp("today")
    shape = toys.STUDENT.replace(vocab_size=len(read_vocab(toy_vocab_file)))
    folders = {
        "bert": models.build_classifier(shape, 2),
        "words": models.build_masked_lm(shape),
    }
    for name, model in folders.items():
        labels = LABELS if name == "bert" else None
        weights.save_hf(
            toys.randomise(model), folder / name, labels=labels, tokenizer=toy_vocab_file
        )
        (folder / name / "vocab.txt").unlink()
    rows = [
        f"the {word} {index} is {kind}\t{kind}"
        for index in range(30)
        for word, kind in (("film", "good"), ("play", "bad"))
    ]
    (folder / "data").mkdir()
    for split in ("train", "dev"):
        text = "\n".join(["text\tlabel", *(f"{split} {row}" for row in rows)]) + "\n"
        (folder / "data" / f"{split}.tsv").write_text(text)
    (folder / "corpus.txt").write_text("the film is good .\nthe play is bad .\n\n" * 20)
    return folder


def run(folder, *words, capsys):
    arguments = [word.format(folder=folder) for word in words]
    code = cli.main(arguments)
    assert code == 0, capsys.readouterr().err


DATA = (*TASK, "--data-dir", "{folder}/data")
COMMANDS = {
    "quickstart": (
        *("quickstart", "--teacher", "{folder}/bert", "--data", "{folder}/data/train.tsv"),
        *("--out", "{folder}/q", "--dry-run"),
    ),
    "finetune": ("finetune", "{folder}/bert", *DATA, "--out", "{folder}/f", "--dry-run"),
    "distill": (
        "distill",
        "--teacher",
        "{folder}/bert",
        "--student",
        "pruned:layers=1",
        *DATA,
        "--out",
        "{folder}/d",
        "--dry-run",
    ),
    "evaluate": ("evaluate", "{folder}/bert", *DATA),
    "answers": ("answers", "{folder}/bert", *DATA, "--out", "{folder}/answers.jsonl"),
    "data prepare": (
        "data",
        "prepare",
        "{folder}/corpus.txt",
        "--vocab",
        "{folder}/bert/tokenizer.json",
        "--max-length",
        "12",
        "--out",
        "{folder}/shards",
    ),
    "data augment": (
        *("data", "augment", *DATA, "--masked-lm", "{folder}/words", "--copies", "1"),
        *("--out", "{folder}/augmented.tsv"),
    ),
    "pretrain": (
        "pretrain",
        "{folder}/words",
        "--corpus",
        "{folder}/corpus.txt",
        "--max-length",
        "12",
        *("--steps", "1", "--set", "evaluations=1"),
        "--batch-size",
        "2",
        "--out",
        "{folder}/p",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name == "pretrain" else [])
        for name in COMMANDS
    ],
)
def test_a_command_opens_it(name, folder, capsys):
    run(folder, *COMMANDS[name], capsys=capsys)


@pytest.mark.slow
def test_an_exported_file_gets_its_vocabulary(folder, toy_vocab_file, tmp_path, capsys):
    out = tmp_path / "file"
    run(
        folder,
        "export",
        "{folder}/bert",
        "--quantize",
        "float32",
        "--lengths",
        "12",
        "--out",
        str(out),
        capsys=capsys,
    )
    assert (out / "vocab.txt").read_text() == toy_vocab_file.read_text()
