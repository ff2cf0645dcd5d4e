"""SQuAD files and the official scores."""

import json

import pytest

from tfdistill import errors, tasks
from tfdistill.tasks import squad

CONTEXT = "The cat sat on the mat. The mat was red."


def entry(key="q1", question="Who sat?", answers=(("The cat", 0),), **more):
    entries = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": question, "answers": entries, **more}


def file_of(*entries):
    data = [{"title": "Cats", "paragraphs": [{"context": CONTEXT, "qas": list(entries)}]}]
    return json.dumps({"version": "1.1", "data": data})


def write(folder, *entries, name="dev.json"):
    path = folder / name
    path.write_text(file_of(*entries), encoding="utf-8")
    return path


def test_a_question_without_answers_belongs_to_version_2(tmp_path):
    impossible = entry("q2", answers=[], is_impossible=True, plausible_answers=[{"text": "x"}])
    path = write(tmp_path, entry(), impossible)
    (_, second), _ = squad.read_questions(path, unanswerable=True)
    assert (second.answers, second.start, second.end) == ((), None, None)
    place = r"dev\.json, data\[0\]\.paragraphs\[0\]\.qas\[1\]: expected an answer.*squad_v2"
    with pytest.raises(errors.DataError, match=place):
        squad.read_questions(path)


def test_a_misplaced_answer_is_learnt_from_the_nearest_place(tmp_path):
    path = write(tmp_path, entry(answers=[("mat", 21)]), entry("q2", answers=[("mat", 26)]))
    questions, skipped = squad.read_questions(path, training=True)
    assert ([q.start for q in questions], skipped) == ([19, 28], 0)
    assert [q.start for q in squad.read_questions(path).questions] == [21, 26]  # as the file says


def test_an_answer_outside_its_context_is_left_out_of_training_and_counted(tmp_path):
    path = write(tmp_path, entry(), entry("q2", answers=[("dog", 3)]))
    questions, skipped = squad.read_questions(path, training=True)
    assert ([q.key for q in questions], skipped) == (["q1"], 1)
    assert len(squad.read_questions(path).questions) == 2
    only = write(tmp_path, entry("q2", answers=[("dog", 3)]), name="train.json")
    with pytest.raises(errors.DataError, match="1 with answers that are not"):
        squad.read_questions(only, training=True)


BROKEN = [
    ({"id": 7}, r"qas\[0\]\.id: expected a string, received 7"),
    ({"question": None}, r"qas\[0\]\.question"),
    ({"answers": "The cat"}, r"qas\[0\]: .*'answers'"),
    ({"answers": [{"answer_start": 0}]}, r"answers\[0\]\.text"),
    ({"answers": [{"text": "The cat"}]}, "a text and its answer_start"),
    ({"answers": [{"text": "", "answer_start": 0}]}, "a text and its answer_start"),
    ({"answers": [{"text": "The cat", "answer_start": -5}]}, "a text and its answer_start"),
    ({"is_impossible": "false"},
     r"qas\[0\]\.is_impossible: expected true or false, received 'false'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", r"dev\.json, line 1: expected JSON"),
        ("[]", r"an object with the list 'data', received list\. Is this a SQuAD file"),
        ('{"data": {}}', "the list 'data'"),
        ('{"data": []}', "expected questions, received none"),
        ('{"data": [{"title": "x"}]}', r"data\[0\]: .*'paragraphs', received \['title'\]"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"paragraphs\[0\]\.context: .* None"),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1", "answers": []}]}]}]}',
            r"qas\[0\]: expected an answer",
        ),
        (file_of(entry(), entry()), r"qas\[1\]: .*that of data\[0\].*qas\[0\]"),
        *((file_of({**entry(), **broken}), says) for broken, says in BROKEN),
    ],
)
def test_a_malformed_file_or_question_is_explained_with_the_place(tmp_path, content, says):
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(errors.DataError, match=says):
        squad.read_questions(path, unanswerable="is_impossible" in content)


# The scores. Expected values follow the published evaluation scripts, worked out by hand.


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat!", "cat"),
        ("a theatre, an Answer", "theatre answer"),
        ("U.S.", "us"),
        ("well-known", "wellknown"),  # punctuation goes first, without a space
        ("the-end", "theend"),
        ("«the» café", "« » café"),  # only ASCII punctuation goes; an article leaves a space
        ("An", ""),
        ("tab\tand\nline", "tab and line"),
    ],
)
def test_answers_are_compared_in_normal_form(text, normal):
    assert squad.normalise_answer(text) == normal


@pytest.mark.parametrize(
    ("answer", "gold", "f1", "exact"),
    [
        ("The cat", "cat", 1.0, 1.0),
        ("cat sat", "the cat sat on a mat", 2 * 1 * 0.5 / 1.5, 0.0),
        ("red red mat", "red mat mat", 2 / 3, 0.0),  # words count as often as both have them
        ("dog", "cat", 0.0, 0.0),
        ("", "cat", 0.0, 0.0),
    ],
)
def test_f1_and_exact_match_of_two_answers(answer, gold, f1, exact):
    assert squad.answer_f1(answer, gold) == pytest.approx(f1)
    assert squad.answer_f1(answer, gold, unanswerable=True) == pytest.approx(f1)
    assert squad.exact_match(answer, gold) == exact


def test_answers_without_words_count_differently_in_the_two_versions():
    assert squad.answer_f1("", "the") == 0.0
    assert squad.answer_f1("", "the", unanswerable=True) == 1.0
    assert squad.answer_f1("x", "", unanswerable=True) == 0.0
    assert squad.exact_match("", "the") == 1.0


def question(*answers):
    return squad.Question("k", "?", CONTEXT, answers, 0 if answers else None)


def test_version_2_rewards_no_answer_only_where_there_is_none():
    questions = [question(), question(), question("cat"), question("the", "cat")]
    scores = squad.score_answers(questions, ["", "cat", "", "cat"], unanswerable=True)
    assert scores == {"f1": 0.5, "exact_match": 0.5}
    # A gold answer without a word is left out: "the" alone would match "".
    assert squad.score_answers([question("the", "cat")], [""], unanswerable=True)["f1"] == 0.0
    assert squad.score_answers([question("the")], [""], unanswerable=True)["f1"] == 1.0


def test_there_must_be_an_answer_to_each_question():
    with pytest.raises(errors.DataError, match="1, one a question, received 2"):
        squad.score_answers([question("x")], ["x", "y"])


# The tasks.


def test_the_official_file_names_are_found(tmp_path):
    write(tmp_path, entry(), name="dev-v1.1.json")
    impossible = entry("q2", answers=[], is_impossible=True)
    (tmp_path / "two").mkdir()
    write(tmp_path / "two", entry(), impossible, name="train-v2.0.json")
    first = tasks.load_examples(tasks.task("squad"), tmp_path, "dev")
    assert (first.texts, first.pairs) == (["Who sat?"], [CONTEXT])
    assert first.labels.tolist() == [[0, 7]]
    second = tasks.load_examples(tasks.task("squad_v2"), tmp_path / "two", "train")
    assert second.labels.tolist() == [[0, 7], [-1, -1]]
    chosen = second.select([1])
    assert (chosen.questions[0].key, chosen.labels.tolist()) == ("q2", [[-1, -1]])
    assert tasks.load_examples(tasks.task("squad"), tmp_path, "dev", labelled=False).labels is None
    with pytest.raises(errors.DataError, match=r"train\.json or train-v1\.1\.json"):
        tasks.load_examples(tasks.task("squad"), tmp_path, "train")


@pytest.mark.shared_data
def test_gold_answers_of_a_real_file_score_everything(shared_data):
    path = shared_data / "squad" / "xquad.en.json"
    questions, skipped = squad.read_questions(path, training=True)
    assert (len(questions), skipped) == (1190, 0)
    for item in questions:
        assert item.context[item.start : item.end] == item.answers[0]
    gold = [item.answers[0] for item in questions]
    for unanswerable in (False, True):
        scores = squad.score_answers(questions, gold, unanswerable=unanswerable)
        assert scores == {"f1": 1.0, "exact_match": 1.0}
    shifted = squad.score_answers(questions, gold[1:] + gold[:1])
    assert shifted["exact_match"] < 0.05
