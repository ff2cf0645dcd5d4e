"""A latency card says what machine it is of, and what becomes of texts that a file cuts."""

import json
import pathlib

import benchmark_results as fake
import pytest

from tfdistill import cli, errors
from tfdistill.benchmark import card, schema
from tfdistill.benchmark.statistics import summaries
from tfdistill.benchmark.subjects import open_subject, texts_for

BUNDLES = pathlib.Path(__file__).parents[2] / "android_demo/text/src/test/resources/bundles"
QUICK = "--runs 5 --min-seconds 0 --repetitions 1 --warmup 1 --lengths 8,16".split()


def cells(page):
    """The cells of each row of the card's table by the titles of the columns."""
    head, _, *rows = [line for line in page.splitlines() if line.startswith("|")]
    names = [name.strip() for name in head.strip("|").split("|")]
    values = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [dict(zip(names, row, strict=True)) for row in values]


@pytest.mark.slow
def test_the_card_of_this_host_has_every_length_and_says_which_are_cut(export_folder, tmp_path):
    out, page = tmp_path / "latency.json", tmp_path / "card.md"
    command = ["benchmark", str(export_folder), *QUICK, "--out", str(out), "--card", str(page)]
    assert cli.main(command) == 0
    text = page.read_text()
    assert "host, no phone" in text
    (row,) = cells(text)
    assert list(row)[:3] == ["model", "precision", "size"]
    assert (row["model"], row["precision"]) == ("student (1 thread)", "float32")
    measured = json.loads(out.read_text())
    longest = {part["sequence_length"]: part for part in measured["summary"]}[16]
    for title, name in (("load, ms", "init_ms"), ("first answer, ms", "first_inference_ms")):
        assert float(row[title]) == pytest.approx(longest[name], rel=0.01)
    subject = open_subject(export_folder)
    for words in (16, 80, 256):
        tokens = {len(one.split()) for one, _ in texts_for([subject], words)["student"]}
        assert tokens == {words}
        (part,) = [part for part in measured["end_to_end"] if part["words"] == words]
        cell = row[f"{words} words, ms"]
        figure = cell.split()[0]
        assert float(figure) == pytest.approx(part["p50_ms"], rel=0.01)
        # "Turn the LIGHT on, please" has a comma that is a token of its own, and [CLS] and [SEP].
        most = max(t["tokens"] for t in measured["texts"] if t["words"] == words)
        assert words + 2 < most <= 2 * words and f"{most} tokens, cut at 16" in cell
    assert len(measured["end_to_end"]) == 4
    assert cli.main([*command, "--overwrite", "--device", "adb"]) == 2


def test_texts_of_so_many_words_begin_at_each_of_the_texts_and_continue_with_the_next(
    export_folder,
):
    subject = open_subject(export_folder)
    assert [text for text, _ in texts_for([subject], 7)["student"]] == [
        "Turn the LIGHT on, please play music",
        "play music set an alarm for seven",
        "set an alarm for seven what is",
        "what is the weather Turn the LIGHT",
    ]


def test_a_pair_has_half_of_the_words_on_either_side():
    subject = open_subject(BUNDLES / "pairs-float32")
    for text, pair in texts_for([subject], 80)[subject.name]:
        assert (len(text.split()), len(pair.split())) == (40, 40)


def test_a_file_that_reads_texts_in_parts_gets_none_that_needs_several():
    subject = open_subject(BUNDLES / "tags-float32")
    assert not texts_for([subject], 256)
    assert texts_for([subject], 2)
    assert not texts_for([open_subject(BUNDLES / "spans-float32")], 256)


def text_row(words, level, **more):
    samples = tuple(level + i / 100 for i in range(20))
    values = {"model": "student", "threads": 1, "repetition": 0, "words": words, **more}
    return schema.TextMeasurement(samples_ms=samples, tokenizer_ms=samples, **values)


def test_a_length_without_a_figure_says_so(tmp_path):
    rows = fake.repetitions(2.0, init_ms=1.5)
    texts = [text_row(None, 3.0), text_row(80, 5.0, tokens=70)]
    file = fake.model_file(accuracy=0.9)
    failure = schema.Failure(what="texts of 16 words", error="expected a | b")
    whole = fake.assembled(rows, models=[file], texts=texts, failures=[failure])
    card.write(whole, tmp_path / "card.md")
    page = (tmp_path / "card.md").read_text()
    (row,) = cells(page)
    assert row["16 words, ms"] == row["256 words, ms"] == "not measured"
    assert row["80 words, ms"].startswith("5.095 (p90")
    assert "NOT MEASURED: texts of 16 words: expected a \\| b" in page
    assert whole.tokenizer.n == 20  # of the texts as they are alone


def test_texts_of_other_lengths_are_a_figure_of_their_own():
    rows = [text_row(None, 3.0), text_row(16, 5.0), text_row(16, 5.0, repetition=1)]
    assert [(row.words, row.n) for row in summaries.end_to_end(rows)] == [(None, 20), (16, 40)]


PHONE = fake.PHONE.model_copy(update={"id": None})


@pytest.mark.parametrize(
    ("kind", "backend", "fingerprint"),
    [
        ("emulator", "app", PHONE.fingerprint),
        ("emulator", "benchmark_model", PHONE.fingerprint),
        ("phone", "benchmark_model", PHONE.fingerprint),
        ("phone", "app", None),
        ("phone", "app", "generic/sdk:15"),
        ("phone", "litert", PHONE.fingerprint),
        ("host", "app", None),
    ],
)
def test_what_no_phone_and_no_host_measured_gets_no_card(kind, backend, fingerprint, tmp_path):
    device = PHONE.model_copy(update={"fingerprint": fingerprint})
    whole = fake.assembled(fake.repetitions(2.0), kind=kind, backend=backend, device=device)
    with pytest.raises(errors.BenchmarkError, match="A simulated device gets no card"):
        card.write(whole, tmp_path / "card.md")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--card", "card.md", "--device", "adb"], "--card: expected this host, or --adopt"),
        (["--card", "a.md", "--out", "a.md"], "--card: expected another file than --out"),
        (["--card", "."], "received a folder"),
    ],
)
def test_a_card_that_cannot_be_written_ends_before_anything_is_measured(
    tflite_files, tmp_path, monkeypatch, capsys, options, complaint
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["benchmark", str(tflite_files / "fast.tflite"), *options]) != 0
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
