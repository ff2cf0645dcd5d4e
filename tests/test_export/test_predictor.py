"""An exported file answers texts without TensorFlow, as the model and the app do."""

import dataclasses
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import unigrams

from tfdistill import cli, errors, manifest
from tfdistill.manifest.confidence import Confidence, EntityPromise, Recall
from tfdistill.predictor import Predictor

ROOT = pathlib.Path(__file__).parents[2]
BUNDLES = ROOT / "android_demo/text/src/test/resources/bundles"


def bundle(name, folder, *, promise=None, task=None, **confidence):
    """A copy of a toy of the app, with other words of its task, or with a confidence."""
    shutil.copytree(BUNDLES / f"{name}-float32", folder)
    card = json.loads((folder / "model.json").read_text())
    card["task"] |= task or {}
    if confidence:
        promises = () if promise is None else ({"max_error": 0.05, "rows": 400, **promise},)
        values = {"num_examples": 300, "promises": promises, **confidence}
        record = Confidence.of_file(card["model"]["sha256"], **values)
        card["confidence"] = record.model_dump(mode="json")
    (folder / "model.json").write_text(json.dumps(card))
    return folder


def golden(folder):
    return json.loads((folder / "golden.json").read_text())["examples"]


@pytest.mark.parametrize(
    ("confidence", "divisor"),
    [({"temperature": 2.0}, 2), ({"temperature": 1.0, "temperature_inside": 2.0}, 1)],
)
def test_a_class_has_the_probability_of_the_file_at_the_temperature(confidence, divisor, tmp_path):
    folder = bundle("pairs", tmp_path / "m", **confidence)
    labels = manifest.read_manifest(folder).task.labels
    with Predictor(folder) as predictor:
        for example in golden(folder):
            # The toy gives probabilities: their logarithms are its logits.
            scaled = np.log(np.array(example["outputs"])) / divisor
            shares = np.exp(scaled) / np.exp(scaled).sum()
            answer = predictor.predict(example["text"], example["pair"] or "")
            assert answer.label == labels[int(shares.argmax())]
            assert answer.probability == pytest.approx(shares.max(), abs=1e-6)
            assert answer.sure is None and answer.milliseconds > 0


@pytest.mark.parametrize(("threshold", "sure"), [(0.0, True), (0.999, False), (None, False)])
def test_an_answer_is_sure_above_the_threshold(threshold, sure, tmp_path):
    shares = {} if threshold is None else {"coverage": 0.5, "error": 0.01}
    promise = {"threshold": threshold, **shares}
    folder = bundle("pairs", tmp_path / "m", temperature=1.0, promise=promise)
    with Predictor(folder) as predictor:
        assert predictor.predict("a film", "is good").sure is sure


def test_a_text_of_another_kind_is_not_sure_and_says_why(tmp_path, capsys):
    lists = {"pieces": "2 9 3 9", "pairs": "2 3 9", "num_pieces": 18, "first_word": 5}
    promise = {"threshold": 0.0, "coverage": 0.5, "error": 0.01}
    for threshold, sure in ((-100.0, True), (100.0, False)):
        told = {"threshold": threshold, **lists}
        folder = bundle(
            "pairs", tmp_path / f"{sure}", temperature=1.0, promise=promise, familiarity=told
        )
        with Predictor(folder) as predictor:
            answer = predictor.predict("a film", "is good")
        assert (answer.sure, answer.reason) == (sure, None if sure else "another kind of text")
    assert answer.probability > 0
    assert cli.main(["predict", str(folder), "a film\tis good"]) == 0
    assert "not sure  (another kind of text)" in capsys.readouterr().out
    assert cli.main(["predict", str(folder), "a film\tis good", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "another kind of text"


@pytest.mark.parametrize(
    ("text", "pair", "sure"),
    [
        ("a film", "is good", True),
        ("फिल्म अच्छी है", "a film", False),
        ("日本語の映画", "😀 😀 a film is good, 日本", True),
    ],
)
def test_a_text_that_the_vocabulary_cannot_spell_is_of_another_kind(text, pair, sure, tmp_path):
    promise = {"threshold": 0.0, "coverage": 0.5, "error": 0.01}
    folder = bundle("pairs", tmp_path / "m", temperature=1.0, promise=promise)
    with Predictor(folder) as predictor:
        answer = predictor.predict(text, pair)
    assert (answer.sure, answer.reason) == (sure, None if sure else "another kind of text")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("यह फिल्म अच्छी है।", True),
        ("la película es buena", True),
        ("das 😀😀 😀 😀 😀", True),
        ("これは、いい映画です。", False),
        ("映画を見た film 10 €", False),
        ("...", True),
        ("", True),
    ],
)
def test_letters_alone_say_whether_pieces_spell_a_text(text, read):
    predictor = types.SimpleNamespace(_tokenizer=unigrams.unigram())
    assert Predictor._is_read(predictor, text) is read


def test_words_have_a_tag_each_beyond_the_longest_signature_too(tmp_path):
    folder = bundle("tags", tmp_path / "m", temperature=1.0)
    words = "mary saw the very good film in paris".split()
    with Predictor(folder) as predictor:
        short = predictor.predict(" ".join(words))
        long = predictor.predict(" ".join(words * 5))
    assert short.words == tuple(words) and len(short.label) == 8
    assert len(long.label) == len(long.words) == 40
    assert 0 < long.probability < short.probability < 1


@pytest.fixture
def tagger(tmp_path):
    """A file that takes "mary" for the beginning of a person, "john" for its going on."""
    folder = bundle("tags", tmp_path / "m", temperature=2.0)
    vocab = (folder / "vocab.txt").read_text().split("\n")
    scores = {"mary": [0.0, 4.0, 3.0], "john": [1.0, 1.5, 3.0], "日": [0.0, 2.0, 0.0]}

    def answer(ids, types, *, pad_id):
        return np.array([scores.get(vocab[piece], [2.0, 0.0, 0.0]) for piece in ids], np.float32)

    with Predictor(folder) as predictor:
        predictor._file.predict = answer
        yield predictor


LONG = "a film was not good. " * 40
NASTY = [
    ("(Mary John,", ["Mary John"]),
    ("x\r\n\tMary\u00a0John\u3000!", ["Mary\u00a0John"]),
    ("e\u0301 Ma\u0301ry\u0301\u200d\ufe0f, e\u0301", ["Ma\u0301ry\u0301\u200d\ufe0f"]),
    ("\U0001f469\u200d\U0001f467 mary\u200f \U0001f44d\U0001f3fd john", ["mary", "john"]),
    ("\u200fmary\u200e mary", ["mary", "mary"]),
    ("日本", ["日"]),
    ("john saw mary", ["john", "mary"]),  # no text begins with I-PER: B-PER is the next best
    (f"{LONG}Mary {LONG}Mary John {LONG}", ["Mary", "Mary John"]),
    (" \r\n\t\u00a0", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), NASTY, ids=range(len(NASTY)))
def test_entities_are_where_they_stand_and_masks_put_them_back(text, expected, tagger):
    answer = tagger.predict(text)
    assert [entity.text for entity in answer.entities] == expected
    end = 0
    for entity in answer.entities:
        assert end <= entity.start < entity.end and entity.label == "PER"
        assert text[entity.start : entity.end] == entity.text
        assert 0 < entity.probability < 1 and entity.sure is None
        end = entity.end
    masked = tagger.mask(text)
    assert masked.restore(masked.text) == text
    assert all(name.casefold() not in masked.text.casefold() for name in expected)
    assert set(masked.table.values()) == set(expected)
    assert len(re.findall(r"\[PER_\d\]", masked.text)) == len(expected)


def test_the_probability_of_an_entity_is_that_of_its_part_of_the_path(tagger):
    (entity,) = tagger.predict("mary john .").entities
    one, two, other = (np.exp(np.array(row) / 2) for row in ([0, 4], [1, 1.5, 3], [2, 0, 0]))
    expected = one[1] / one.sum() * two[2] / two.sum() * other[:2].sum() / other.sum()
    assert entity.probability == pytest.approx(expected, rel=1e-6)


def test_what_rules_find_takes_the_place_of_what_the_model_finds_there(tagger):
    text = "mary.john@john.org, mary john GB82 WEST 1234 5698 7654 32 john"
    of_model = tagger.predict(text).entities
    assert [entity.text for entity in of_model] == ["mary", "john", "john", "mary john", "john"]
    tagger.patterns = True
    answer = tagger.predict(text)
    assert [(entity.label, entity.text) for entity in answer.entities] == [
        ("EMAIL", "mary.john@john.org"),
        ("PER", "mary john"),
        ("IBAN", "GB82 WEST 1234 5698 7654 32"),
        ("PER", "john"),
    ]
    assert all(text[it.start : it.end] == it.text for it in answer.entities)
    of_rules = [it for it in answer.entities if it.label != "PER"]
    assert {(it.probability, it.sure) for it in of_rules} == {(1.0, True)}
    # Nothing of the number goes on with the name, so it ends there for sure.
    assert answer.entities[1].probability > of_model[3].probability
    tags = dict(zip(answer.words, answer.label, strict=True))
    assert (tags["john"], tags["org"], tags["WEST"], tags["mary"]) == ("B-PER", "O", "O", "B-PER")
    assert tagger.mask(text).text == "[EMAIL_1], [PER_1] [IBAN_1] [PER_2]"


@pytest.mark.parametrize(("threshold", "sure"), [(0.7, [False, True]), (None, [False, False])])
def test_each_entity_is_sure_above_the_threshold_and_whole_texts_are_not_judged(
    threshold, sure, tagger
):
    sure_above = (
        {} if threshold is None else {"threshold": threshold, "coverage": 0.5, "error": 0.0}
    )
    tagger.promise = EntityPromise(max_error=0.05, rows=300, **sure_above)
    record = Confidence(
        temperature=2.0, num_examples=1, entity_promises=(tagger.promise,), sha256="0" * 64
    )
    tagger.card = tagger.card.model_copy(update={"confidence": record})
    answer = tagger.predict("mary john saw mary")
    assert [entity.sure for entity in answer.entities] == sure
    assert answer.sure is None and answer.reason is None and answer.probability > 0
    unread = tagger.predict("फिल्म अच्छी है mary")
    assert [entity.sure for entity in unread.entities] == [False]
    assert unread.reason == (None if threshold is None else "another kind of text")


def test_a_recall_hides_runs_of_words_that_the_path_calls_o(tagger):
    tagger._task = tagger._task.model_copy(update={"labels": ("O", "B-PER", "I-PER", "B-LOC")})
    vocab = tagger._tokenizer.vocab
    scores = {
        "mary": [0, 4, 3, 0],
        "film": [3, 1, 0, 2.5],
        "story": [3, 2.9, 1, 0],
        "good": [3, 0, 0, 2],
    }
    tagger._file.predict = lambda ids, types, *, pad_id: np.array(
        [scores.get(vocab[piece], [9.0, 0, 0, 0]) for piece in ids], np.float32
    )
    text = "mary, a film Story of mary Film good"

    def masked(threshold):
        recall = Recall(min_recall=0.9, rows=300, threshold=threshold)
        record = Confidence(temperature=2.0, num_examples=1, recall=recall, sha256="0" * 64)
        tagger.card = tagger.card.model_copy(update={"confidence": record})
        hidden = tagger.predict(text).hidden
        return tagger.mask(text), [(it.label, it.text, it.sure) for it in hidden]

    inside = {
        name: 1 - np.exp(row[0] / 2) / np.exp(np.array(row) / 2).sum()
        for name, row in scores.items()
    }
    result, hidden = masked(inside["film"] - 1e-6)
    # B-LOC of "film" has less than B-PER and I-PER of "story"; "good" has too little.
    assert hidden == [("PER", "film Story", False), ("LOC", "Film", False)]
    assert result.text == "[PER_1], a [PER_2] of [PER_1] [LOC_1] good"
    assert result.restore(result.text) == text
    assert masked(inside["good"] - 1e-6)[1][1] == ("LOC", "Film good", False)
    assert masked(None)[1] == [] == masked(1.0)[1]


def test_the_same_name_has_the_same_placeholder_and_never_one_of_the_text(tagger):
    masked = tagger.mask("[PER_2] saw mary, Mary and mary.")
    assert masked.text == "[PER_2] saw [PER_1], [PER_3] and [PER_1]."
    assert masked.table == {"[PER_1]": "mary", "[PER_3]": "Mary"}
    assert masked.restore("[PER_3] and [PER_2]") == "Mary and [PER_2]"


def test_a_file_whose_labels_name_no_entities_tags_words_and_masks_nothing(tagger):
    names = {"labels": ("NOUN", "O", "VERB")}
    tagger._task = tagger._task.model_copy(update=names)
    answer = tagger.predict("mary-ann")
    assert (answer.words, answer.entities) == (("mary", "-", "ann"), None)
    assert answer.label == ("O", "NOUN", "NOUN")
    with pytest.raises(errors.ConfigError, match="mask: expected a file that tags entities"):
        tagger.mask("mary")


def test_the_command_marks_entities_and_writes_records(tmp_path, capsys):
    folder = bundle("tags", tmp_path / "m", temperature=1.0)
    text = "who saw mary in paris ?"
    with Predictor(folder) as predictor:
        entities = predictor.predict(text).entities
    assert entities
    assert cli.main(["predict", str(folder), text]) == 0
    shown = capsys.readouterr().out
    first = entities[0]
    mark = f"{text[: first.start]}[{first.text}|PER {first.probability:.2f}]"
    assert shown.startswith(mark) and shown.count("|PER ") == len(entities)
    assert cli.main(["predict", str(folder), "a@b.de", "--patterns"]) == 0
    assert capsys.readouterr().out.startswith("[a@b.de|EMAIL 1.00 sure]  ")
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": text, "id": 1}) + "\n")
    assert cli.main(["predict", str(folder), "--file", str(tmp_path / "x.jsonl"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert list(record) == ["text", "entities", "probability", "sure", "reason", "milliseconds"]
    assert record["entities"] == [dataclasses.asdict(entity) for entity in entities]


def test_one_text_is_no_pair_and_no_promise_is_none(tmp_path):
    folder = bundle("pairs", tmp_path / "m")
    with Predictor(folder) as predictor, pytest.raises(errors.DataError, match="a second text"):
        predictor.predict("alone")
    for copy in (folder, bundle("pairs", tmp_path / "other", temperature=1.5)):
        with pytest.raises(errors.ConfigError, match="--promise-on FILE"):
            Predictor(copy, max_error=0.05)


def run(*argv, text=""):
    """The program in a process of its own: output, and the processor time that it took."""
    code = (
        "import resource, sys; from tfdistill import cli; status = cli.main(sys.argv[1:]); "
        "usage = resource.getrusage(resource.RUSAGE_SELF); "
        "print(usage.ru_utime + usage.ru_stime, 'tensorflow' in sys.modules, file=sys.stderr); "
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        input=text, capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    seconds, imported = done.stderr.splitlines()[-1].split()
    return done.stdout, float(seconds), imported == "True"


@pytest.mark.slow
def test_the_command_answers_without_tensorflow_within_two_seconds(tmp_path):
    promise = {"threshold": 0.4, "coverage": 0.5, "error": 0.01}
    folder = bundle("pairs", tmp_path / "export", temperature=1.0, promise=promise)
    out, seconds, imported = run("predict", str(tmp_path), "a film\tgood")
    assert re.fullmatch(r"(no|yes|maybe)  0\.\d{4}  (not )?sure  [\d.]+ ms  a film \| good\n", out)
    assert not imported
    assert seconds < 2  # of the processor; about 0.8 here
    lines = "a film\tgood\n\nit is bad\tthe story\n"
    (tmp_path / "texts.txt").write_text(lines)
    from_file, *_ = run("predict", str(folder), "--file", str(tmp_path / "texts.txt"), "--json")
    from_input, *_ = run("predict", str(folder), "--json", text=lines)
    rows = [json.loads(line) for line in from_file.splitlines()]
    assert [row["text"] for row in rows] == ["a film", "it is bad"]
    keys = ["text", "pair", "label", "probability", "sure", "reason", "milliseconds"]
    assert [list(row) for row in rows] == [keys, keys]
    again = [json.loads(line) for line in from_input.splitlines()]
    for row in (*rows, *again):
        del row["milliseconds"]
    assert rows == again


def test_the_teacher_of_the_run_answers_beside_the_student(tmp_path, capsys):
    bundle("pairs", tmp_path / "export", temperature=3.0)
    argv = ["predict", str(tmp_path), "a film\tgood", "--against", "teacher", "--json"]
    assert cli.main(argv) == 2
    assert "teacher's file" in capsys.readouterr().err
    bundle("pairs", tmp_path / "teacher" / "export", temperature=1.0)
    assert cli.main(argv) == 0
    row = json.loads(capsys.readouterr().out)
    # The same file, three times as sure: its probability is the larger one.
    assert row["teacher"]["label"] == row["label"]
    assert row["teacher"]["probability"] > row["probability"]
    assert cli.main(argv[:-1]) == 0
    assert "  teacher: " in capsys.readouterr().out


def test_a_promise_that_is_named_is_that_of_the_teacher_too(tmp_path, capsys):
    sure = {"threshold": 0.0, "coverage": 1.0, "error": 0.0}
    bundle("pairs", tmp_path / "export", temperature=1.0, promise={"max_error": 0.1, **sure})
    teacher = bundle("pairs", tmp_path / "teacher" / "export", temperature=1.0, promise=sure)
    argv = ["predict", str(tmp_path), "--against", "teacher", "--max-error", "0.1", "--json"]
    assert cli.main([*argv, "a\tb"]) == 2  # the texts stand behind options
    assert "expected one of 0.05, received 0.1" in capsys.readouterr().err
    shutil.rmtree(teacher)
    bundle("pairs", teacher, temperature=1.0, promise={"max_error": 0.1, **sure})
    assert cli.main([*argv, "a\tb", "c\td"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["a", "c"] and rows[0]["teacher"]["sure"]


@pytest.mark.parametrize("path", [".", "texts.csv", "none", "none.tflite"])
def test_what_is_no_export_is_refused_in_the_words_of_the_command(path, tmp_path, capsys):
    (tmp_path / "texts.csv").write_text("text\n")
    assert cli.main(["predict", str(tmp_path / path), "a"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("tfdistill predict: RUN: expected ") and path.strip(".") in told


def test_wrong_words_of_the_command_are_told(tmp_path, capsys):
    bundle("pairs", tmp_path / "export")
    columns = ["--text-column", "a", "--pair-column", "b"]
    for argv, code, told in (
        (["a"], 1, "two texts with one tab between them"),
        (["a\tb", "--file", "x"], 2, "no TEXT beside it"),
        (["a\tb", "--max-error", "0.05"], 2, "--promise-on FILE"),
        (["--file", str(tmp_path / "none.txt")], 1, "none.txt"),
        (["--file", str(tmp_path / "none.csv")], 2, "columns of the task's texts"),
        (["--file", str(tmp_path / "none.tsv"), *columns], 1, "none.tsv: not there"),
        (["--file", str(tmp_path / "none.json"), *columns], 1, "expected one of .tsv, .csv"),
    ):
        assert cli.main(["predict", str(tmp_path), *argv]) == code
        assert told in capsys.readouterr().err


def test_a_table_between_tabs_is_no_list_of_single_texts(tmp_path, capsys):
    folder = bundle("pairs", tmp_path / "export", task={"pair": False})
    (tmp_path / "x.tsv").write_text("question\tkind\nWhere ?\tplace\n")

    argv = ["predict", str(folder), "--json", "--file", str(tmp_path / "x.tsv")]
    assert cli.main(argv) == 2
    assert "Name them with --text-column alone" in capsys.readouterr().err
    assert cli.main([*argv, "--text-column", "question"]) == 0
    assert [json.loads(capsys.readouterr().out)["text"]] == ["Where ?"]


NO_THREADS = [{"threads": threads} for threads in (0, -1, 1.5, "2", None)]


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("spans", {}, errors.ManifestError, "labels or a number"),
        ("vectors", {}, errors.ManifestError, "labels or a number"),
        *(
            ("pairs", options, errors.ConfigError, "threads: expected .* at least 1, received")
            for options in NO_THREADS
        ),
    ],
)
def test_other_kinds_of_answers_and_numbers_of_threads_are_refused(name, options, error, message):
    with pytest.raises(error, match=message):
        Predictor(BUNDLES / f"{name}-float32", **options)


def test_lines_of_the_standard_input_end_as_those_of_a_file(tmp_path, capsys, monkeypatch):
    folder = bundle("pairs", tmp_path / "export")
    content = b"a\tb\rc\td\n\ne\tf\r\n\rg\th"
    (tmp_path / "x.txt").write_bytes(content)
    shown = []
    for more in (["--file", str(tmp_path / "x.txt")], []):
        # As Python opens the standard input of POSIX.
        source = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="\n")
        monkeypatch.setattr("sys.stdin", source)
        assert cli.main(["predict", str(folder), "--json", *more]) == 0
        captured = capsys.readouterr()
        assert "2 blank line(s) were left out" in captured.err
        shown.append([json.loads(line)["text"] for line in captured.out.splitlines()])
    assert shown == [["a", "c", "e", "g"]] * 2
