"""evaluate --answers: whether a file still answers as a large model does."""

import itertools
import json
import pathlib
import shutil

import pytest

from tfdistill import cli, manifest
from tfdistill.commands import answers as command
from tfdistill.manifest.confidence import Confidence
from tfdistill.predictor import Predictor

BUNDLE = (
    pathlib.Path(__file__).parents[2] / "android_demo/text/src/test/resources/bundles/pairs-float32"
)
WORDS = "the a it is not good bad film story was who made mary john".split()
TEXTS = [" ".join(words) for words in itertools.combinations(WORDS, 3)][::2]  # 182


@pytest.fixture
def shipped(tmp_path):
    """A file that is sure of half of the texts, its data, and its answers to the texts."""
    folder = tmp_path / "export"
    shutil.copytree(BUNDLE, folder)
    card = manifest.read_manifest(folder)
    assert card.task is not None
    task = card.task.model_copy(update={"pair": False, "text_column": "text"})
    manifest.write_manifest(card.model_copy(update={"task": task}), folder)
    with Predictor(folder) as predictor:
        answers = [predictor.predict(text) for text in TEXTS]
    middle = sorted(answer.probability for answer in answers)[len(answers) // 2]
    rows = (
        {"max_disagreement": 0.02, "rows": 50, "rows_needed": 114},
        {"max_disagreement": 0.1, "rows": 300, "threshold": middle, "coverage": 0.5,
         "disagreement": 0.07},
    )  # fmt: skip
    record = Confidence.of_file(card.model.sha256, temperature=1.0, num_examples=0, agreements=rows)
    update = {"task": task, "confidence": record}
    manifest.write_manifest(card.model_copy(update=update), folder)
    for name, texts in (("train", ["a used text of these words", "b", "c"]), ("dev", "def")):
        lines = [f"{text}\t{label}" for text, label in zip(texts, task.labels, strict=True)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    sure = [answer.probability > middle for answer in answers]
    return tmp_path, task.labels, [answer.label for answer in answers], sure


def evaluated(folder, capsys, **rows_of):
    paths = []
    for name, rows in rows_of.items():
        paths.append(str(folder / f"{name}.jsonl"))
        lines = [json.dumps({"text": text, "said": said}) for text, said in rows]
        pathlib.Path(paths[-1]).write_text("\n".join(lines) + "\n")
    named = ["--task", "own", "--data-dir", str(folder), "--text-column", "text"]
    named += ["--label-column", "label", "--answer-column", "said", "--answers", *paths]
    code = cli.main(["evaluate", str(folder / "export"), *named, "--json"])
    shown = capsys.readouterr()
    return (
        code,
        {pathlib.Path(k).stem: v for k, v in json.loads(shown.out or "{}").items()},
        shown.err,
    )


@pytest.mark.slow
def test_newer_answers_tell_that_an_agreement_is_kept_or_broken_or_neither(shipped, capsys):
    folder, labels, answers, sure = shipped
    others = {label: labels[labels.index(label) - 1] for label in labels}
    everything = range(len(TEXTS))

    def answered(number_otherwise, texts):
        """The rows of texts, so many sure ones of which the large model answers otherwise."""
        differing = [i for i in texts if sure[i]][:number_otherwise]
        return [(TEXTS[i], others[answers[i]] if i in differing else answers[i]) for i in texts]

    # What is not sure may be answered otherwise, and what was used says nothing.
    unsure = [(TEXTS[i], others[answers[i]]) for i in everything if not sure[i]]
    agreeing = [*answered(0, [i for i in everything if sure[i]]), *unsure]
    agreeing.append(("A used text of these words!", labels[1]))
    code, results, err = evaluated(
        folder,
        capsys,
        kept=agreeing,
        broken=answered(60, everything),
        cannot_tell=answered(12, everything),
    )
    assert (code, list(results)) == (0, ["kept", "broken", "cannot_tell"]), err
    for verdict, result in results.items():
        (row,) = result["agreements"]
        assert (result["num_texts"], row["verdict"]) == (182, verdict.replace("_", " "))
        assert row["max_disagreement"] == 0.1 and row["coverage"] == sum(sure) / 182
    assert row["disagreement"] == 12 / 182
    assert row["interval"] == pytest.approx([0.03453, 0.11234], abs=1e-5)  # SciPy's binomtest
    assert command._kept(row, 182) == (
        "cannot tell: at most 10% of all requests sure and unlike the model's answer: 6.6% [3.5%, "
        "11.2%] of 182 new texts; sure of 49.5%, promised 50.0%"
    )
    (folder / "export" / "model.json").write_bytes((BUNDLE / "model.json").read_bytes())
    code, _, err = evaluated(folder, capsys, kept=agreeing)
    assert code == 2 and "--answers: expected a file with agreements" in err
    named = ["--task", "own", "--data-dir", str(folder), "--text-column", "text"]
    named += ["--label-column", "label", "--answer-column", "said"]
    assert cli.main(["evaluate", str(folder / "export"), *named]) == 2
    assert "--answer-column: expected --answers FILE beside it" in capsys.readouterr().err
