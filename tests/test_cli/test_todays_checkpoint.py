"""Commands that open a checkpoint take one as transformers 5 saves it, without a vocab.txt."""

import pytest
import toys

from tfdistill import cli, models, weights
from tfdistill.tokenization.reading import read_vocab

LABELS = ("good", "bad")
TASK = "--task toy --text-column text --label-column label --max-length 12"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    """A classifier in `bert` and a masked language model in `words`, with data for them."""
    folder = tmp_path_factory.mktemp("today")
    shape = toys.STUDENT.replace(vocab_size=len(read_vocab(toy_vocab_file)))
    for name, model, labels in (
        ("bert", models.build_classifier(shape, 2), LABELS),
        ("words", models.build_masked_lm(shape), None),
    ):
        toys.randomise(model)
        weights.save_hf(model, folder / name, labels=labels, tokenizer=toy_vocab_file)
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


DATA = f"{TASK} --data-dir {{}}/data"
COMMANDS = {  # {} is the folder
    "quickstart": "--teacher {}/bert --data {}/data/train.tsv --out {}/q --dry-run",
    "finetune": f"{{}}/bert {DATA} --out {{}}/f --dry-run",
    "distill": f"--teacher {{}}/bert --student pruned:layers=1 {DATA} --out {{}}/d --dry-run",
    "evaluate": f"{{}}/bert {DATA}",
    "answers": f"{{}}/bert {DATA} --out {{}}/answers.jsonl",
    "data prepare": "{}/corpus.txt --vocab {}/bert/tokenizer.json --max-length 12 --out {}/shards",
    "data augment": f"{DATA} --masked-lm {{}}/words --set copies=1 --out {{}}/augmented.tsv",
    "pretrain": "{}/words --corpus {}/corpus.txt --max-length 12 --steps 1 --set evaluations=1 "
    "--batch-size 2 --out {}/p",
    "export": "{}/bert --quantize float32 --lengths 12 --out {}/file",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name == "pretrain" else [])
        for name in COMMANDS
    ],
)
def test_a_command_opens_it(name, folder, toy_vocab_file, capsys):
    command = f"{name} {COMMANDS[name]}".replace("{}", str(folder))
    assert cli.main(command.split()) == 0, capsys.readouterr().err
    if name == "export":  # the file gets its vocabulary
        assert (folder / "file" / "vocab.txt").read_text() == toy_vocab_file.read_text()
