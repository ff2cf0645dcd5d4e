"""Records with entities, in the forms that tools write, as texts whose words have tags."""

import dataclasses
import json

import pyarrow
import pyarrow.parquet
import pytest

from tfdistill import analysis, errors, tasks
from tfdistill.data import from_config
from tfdistill.tasks import tagged_texts

TEXT = "  Anna (in New York)"
TAGS = ["B-PER", "O", "O", "B-LOC", "I-LOC", "O"]
SPANS = [(11, 19, "LOC"), (2, 6, "PER")]  # no order


def spans(names="start end label", **more):
    return [{**dict(zip(names.split(), span, strict=True)), **more} for span in SPANS]


def studio(text, results, **more):
    values = [{"start": s, "end": e, "text": text[s:e], "labels": [n]} for s, e, n in results]
    marked = [{"type": "labels", "from_name": "label", "value": value} for value in values]
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    return {
        "id": 7,
        "data": {"text": text, "source": 3},
        "annotations": [{"result": [*marked, relation], "was_cancelled": False, **more}],
        "predictions": [],
    }


# The rows of a file: a text with two entities, one that is known to have none, one that nobody
# annotated; and the suffix.
FORMS = {
    "spans": (
        {"text": TEXT, "entities": spans()},
        {"text": "no one", "entities": []},
        {"text": "who knows"},
        ".jsonl",
    ),
    "doccano, lists": (
        {"id": 1, "text": TEXT, "label": [list(span) for span in SPANS], "Comments": []},
        {"id": 2, "text": "no one", "label": []},
        {"id": 3, "text": "who knows", "label": None},
        ".jsonl",
    ),
    "doccano, objects": (
        {"text": TEXT, "entities": spans("start_offset end_offset label"), "relations": []},
        {"text": "no one", "entities": []},
        {"text": "who knows"},
        ".json",
    ),
    "Prodigy": (
        {
            "text": TEXT,
            "tokens": [{"text": "Anna", "start": 2, "end": 6, "id": 0}],
            "spans": spans(token_start=0, source="manual"),
            "answer": "accept",
        },
        {"text": "no one", "tokens": [], "spans": [], "answer": "accept"},
        {"text": "who knows", "tokens": [], "spans": spans(), "answer": "reject"},
        ".jsonl",
    ),
    "Label Studio": (
        studio(TEXT, SPANS),
        studio("no one", []),
        studio("who knows", [(0, 3, "PER")], was_cancelled=True),
        ".json",
    ),
    "Label Studio, short": (
        {"id": 1, "text": TEXT, "label": [
            {"start": s, "end": e, "text": TEXT[s:e], "labels": [n]} for s, e, n in SPANS]},
        {"id": 2, "text": "no one", "label": []},
        {"id": 3, "text": "who knows"},
        ".json",
    ),
    "words": (
        {"tokens": ["Anna", "(", "in", "New", "York", ")"], "pos_tags": [1], "ner_tags": TAGS},
        {"tokens": ["no", "one"], "pos_tags": [1], "ner_tags": ["O", "O"]},
        {"tokens": ["who", "knows"], "ner_tags": None},
        ".jsonl",
    ),
}  # fmt: skip
CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def write(path, rows):
    text = json.dumps(rows) if path.suffix == ".json" else "\n\n".join(map(json.dumps, rows))
    path.write_text(text, encoding="utf-8")
    return path


def load(folder, **changes):
    task = dataclasses.replace(tasks.task("ner"), **changes)
    return tasks.load_examples(task, folder, "train")


def tags_of(examples):
    return [[examples.spec.labels[index] for index in row] for row in examples.labels]


@pytest.mark.parametrize("annotated, empty, bare, suffix", FORMS.values(), ids=FORMS)
def test_each_form_gives_words_with_tags_and_leaves_out_what_nobody_annotated(
    tmp_path, caplog, annotated, empty, bare, suffix
):
    path = write(tmp_path / f"train{suffix}", [bare, annotated, empty, {**empty, "text": " \t"}])
    caplog.set_level("INFO")
    examples = load(tmp_path)
    assert examples.words[0] == ["Anna", "(", "in", "New", "York", ")"]
    assert tags_of(examples)[0] == TAGS
    assert examples.words[1:2] == [["no", "one"]] and tags_of(examples)[1] == ["O", "O"]
    assert "left out: 1 text(s) that nobody annotated, first line 1; `tfdistill d" in caplog.text
    assert ("left out: 1 text(s) without a word" in caplog.text) == ("text" in empty)
    unlabelled = tasks.load_examples(tasks.task("ner"), tmp_path, "train", labelled=False)
    assert unlabelled.words[0] == ["who", "knows"]
    assert tagged_texts.has_entities(path)


def refused(path, row, **changes):
    good = {"text": "Eva", "entities": [{"start": 0, "end": 3, "label": "PER"}]}
    write(path / "train.jsonl", [good, row])
    with pytest.raises(errors.DataError) as caught:
        load(path, **changes)
    assert "train.jsonl, line 3" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "entities, says",
    [
        ([(0, 4, "PER"), (3, 6, "LOC")], "share no word, received [3, 6] 'LOC' over a word of"),
        ([(0, 13, "PER"), (5, 7, "LOC")], "share no word, received [5, 7] 'LOC' over"),  # nested
        ([(0, 4, "PER"), (0, 4, "LOC")], "share no word"),
        ([(0, 2, "PER"), (2, 4, "LOC")], "share no word"),  # of one word
        ([(4, 4, "PER")], "one word or more, received none at [4, 4] 'PER'"),
        ([(4, 5, "PER")], "one word or more, received none at [4, 5]"),  # a blank
        ([(6, 4, "PER")], "one word or more, received none at [6, 4]"),
        ([(8, 14, "PER")], "13 characters, or around them, received [8, 14] 'PER'"),
        ([(-4, 4, "PER")], "13 characters, or around them, received [-4, 4] 'PER'"),
        ([(0, 2**60, "PER")], "or around them"),
        ([(0, 4, "O")], "the type of an entity, received 'O'"),
        ([(0, 4, " ")], "a label in every row"),
        ([(0, 4.0, "PER")], "expected entities: {"),
        ([(True, 4, "PER")], "expected entities: {"),
        ([(0, 4, ["PER", "LOC"])], "expected entities: {"),
        ([(0, 4)], "expected entities: {"),
        ("PER", "a list under 'entities', received \"PER\"".replace('"', "'")),
    ],
)
def test_entities_that_cannot_be_meant_are_refused_with_their_record(tmp_path, entities, says):
    listed = [*map(list, entities)] if isinstance(entities, list) else entities
    assert says in refused(tmp_path, {"text": "Anna in York.", "entities": listed})


@pytest.mark.parametrize(
    "row, says",
    [
        ({"text": "Rio", "spans": []}, "the key 'entities', as in line 1, received 'text', 'sp"),
        ({"text": "Rio", "entity": []}, "received 'text', 'entity'. Rename it, or write null"),
        ({"sentence": "Rio", "entities": []}, "a text under 'text', received ['sentence', 'ent"),
        ({"text": 3, "entities": []}, "a text under 'text', received 3"),
        ({"text": " \t", "entities": [[0, 1, "A"]]}, "one word or more"),
        ({"text": "Rio", "entities": [{"start": 0, "end": 3, "label": "A", "text": "Ri"}]},
         "'Ri' at [0, 3] 'A', received 'Rio'"),
    ],
)  # fmt: skip
def test_records_of_another_form_than_the_others_are_refused(tmp_path, row, says):
    assert says in refused(tmp_path, row)


def test_a_label_studio_task_with_two_annotations_and_files_of_other_forms_are_refused(tmp_path):
    task = studio(TEXT, SPANS)
    twice = {**task, "annotations": task["annotations"] * 2}
    for content, says in (
        ([task, twice], "record 2: expected one annotation, received 2"),
        ({"a": 1}, "expected a JSON array of objects, received dict"),
        ([1], "record 1: expected a JSON object, received int"),
        ([{"text": "a"}], "expected records: {"),
        ([{"text": "a", "label": {"choices": ["b"]}}], "expected records: {"),
        ([{"text": "a", "label": ["b"]}], "expected entities: {"),
        ([{"data": 3, "annotations": [{"result": [3]}]}], "a text under 'text', received"),
        ([{"data": {"text": "a"}, "annotations": [{"result": 3}]}], "two different labels"),
        ([{"text": "a", "annotations": ["x", 3]}], "expected entities: {"),
        ([], "expected records: {"),
    ):
        write(tmp_path / "train.json", content)
        with pytest.raises(errors.DataError) as caught:
            load(tmp_path)
        assert says in str(caught.value)


def test_blanks_at_edges_and_parts_of_words_are_changed_counted_and_said(tmp_path, caplog):
    rows = [
        {"text": "to Anna now", "entities": [[2, 8, "PER"]]},
        {"text": "in NewYork, Rio", "entities": [[4, 8, "LOC"], [11, 15, "LOC"]]},
        {"text": "Jose\u0301 asks", "entities": [[0, 4, "PER"]]},  # the accent is of the word
    ]
    write(tmp_path / "train.jsonl", rows)
    caplog.set_level("INFO")
    examples = load(tmp_path)
    assert tags_of(examples) == [
        ["O", "B-PER", "O"],
        ["O", "B-LOC", "O", "B-LOC"],
        ["B-PER", "O"],
    ]
    said = [message.partition(": ")[2] for message in caplog.messages]
    assert said[0].startswith("blanks at edges left out: 2 of 4 entities, first ")
    assert said[1].startswith("edges moved out of words: 2 of 4 entities, first ")
    assert [text.rpartition(", ")[2] for text in said] == ["line 1", "line 3"]


def test_offsets_in_other_units_are_recognised_refused_and_read_as_named(tmp_path):
    text = "\U0001f600 Zoë met \U0001f469\u200d\U0001f680 José in Köln"
    places = [(name, text.index(name)) for name in ("Zoë", "José", "Köln")]
    wide = {
        "utf-16": lambda part: len(part.encode("utf-16-le")) // 2,
        "utf-8": lambda part: len(part.encode()),
    }
    of_words = None
    for unit, size in {"characters": len, **wide}.items():
        spans = [
            {"start": size(text[:at]), "end": size(text[: at + len(name)]), "label": "X"}
            for name, at in places
        ]
        sloppy = {"start": size(text[: places[0][1]]), "end": size(text[:4]), "label": "X"}
        rows = [{"text": text, "entities": spans}, {"text": text, "entities": [sloppy]}]
        write(tmp_path / "train.jsonl", rows)
        if unit in wide:
            says = rf"characters, received {unit.upper()}: 3 entities .* as characters.*{unit}"
            with pytest.raises(errors.DataError, match=says):
                load(tmp_path)
        else:
            of_words = tags_of(load(tmp_path))
        assert tags_of(load(tmp_path, offsets=unit)) == of_words
    assert of_words is not None and [row.count("B-X") for row in of_words] == [3, 1]
    inside = {"text": text, "entities": [[1, 3, "X"]]}  # half of a surrogate pair
    write(tmp_path / "train.jsonl", [inside])
    with pytest.raises(errors.DataError, match=r"edges between two of the .* in utf-16"):
        load(tmp_path, offsets="utf-16")
    settings = {"task": "mine", "text_column": "text", "label_column": "label"}
    with pytest.raises(errors.ConfigError, match=r"data\.offsets"):
        from_config.declared_task(from_config.config.DataConfig(**settings, offsets="utf-16"))


def test_tags_that_are_numbers_have_the_names_of_the_file_or_of_the_recipe(tmp_path):
    rows = [{"tokens": ["Anna", "York"], "ner_tags": [1, 3]}]
    write(tmp_path / "train.jsonl", rows)
    assert tags_of(load(tmp_path, labels=CLASSES)) == [["B-PER", "B-LOC"]]
    for changes in ({}, {"labels": CLASSES[:3]}):
        with pytest.raises(errors.DataError, match=r"line 1: expected the names of the tags"):
            load(tmp_path, **changes)
    (tmp_path / "train.jsonl").unlink()
    feature = {"_type": "Sequence", "feature": {"_type": "ClassLabel", "names": list(CLASSES)}}
    described = json.dumps({"info": {"features": {"ner_tags": feature}}})
    table = pyarrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": described})
    pyarrow.parquet.write_table(table, tmp_path / "train.parquet")
    assert tags_of(load(tmp_path)) == [["B-PER", "B-LOC"]]


@pytest.mark.parametrize(
    "row",
    [
        {"tokens": ["Eva"], "ner_tags": ["O", "O"]},
        {"tokens": ["Eva", " "], "ner_tags": ["O", "O"]},
        {"tokens": "Eva", "ner_tags": ["O"]},
        {"tokens": ["Eva"], "ner_tags": [None]},
    ],
)
def test_words_without_their_tags_are_refused_with_the_record(tmp_path, row):
    write(tmp_path / "train.jsonl", [{"tokens": ["Rio"], "ner_tags": ["B-X"]}, row])
    with pytest.raises(errors.DataError, match="line 3: expected"):
        load(tmp_path)


def test_named_keys_are_read_instead_of_the_usual_ones_and_tables_have_no_entities(tmp_path):
    row = {"tokens": ["a", "b"], "pos_tags": ["X", "Y"], "ner_tags": ["O", "O"]}
    write(tmp_path / "train.jsonl", [row])
    parts = load(tmp_path, label_column="pos_tags", metrics=("accuracy",), primary_metric="")
    assert tags_of(parts) == [["X", "Y"]]
    for other in ({"text": "a", "label": ["x", "y"]}, {"text": "a", "label": "x"}):
        assert not tagged_texts.has_entities(write(tmp_path / "x.jsonl", [other]))


@pytest.mark.slow
def test_a_long_text_with_many_entities_takes_linear_time(tmp_path):
    spans = [[index, index + 3, "PER"] for index in range(0, 10**6, 40)]
    row = {"text": "Zoë " * 250_000, "entities": spans}
    examples = load(write(tmp_path / "train.jsonl", [row]).parent)
    assert len(examples.labels[0]) == 250_000 and sum(examples.labels[0] == 1) == len(spans)


@pytest.mark.parametrize(
    "labels, first",
    [(["PER", "B-PER"], "B-PER"), (["I-X", "B-X", "Y"], "I-X"), (["B-LOC", "I-PER"], "B-LOC")],
)
def test_types_that_are_tags_of_a_scheme_are_refused(tmp_path, labels, first):
    rows = [{"text": "Eva", "entities": [{"start": 0, "end": 3, "label": n}]} for n in labels]
    path = write(tmp_path / "train.jsonl", rows)
    line = 2 * labels.index(first) + 1
    told = f"line {line}: expected the type of an entity, received '{first}'. Write '{first[2:]}'"
    with pytest.raises(errors.DataError, match=told):
        load(tmp_path)
    write(path, [{"text": "Eva is", "entities": [{"start": 0, "end": 3, "label": "B-cell"}]}])
    assert load(tmp_path).spec.labels == ("O", "B-B-cell", "I-B-cell")


def test_the_words_of_a_tool_beside_a_text_with_entities_are_not_the_labels(tmp_path):
    entities = [{"start": 0, "end": 3, "label": "PER"}]
    rows = [{"text": "Eva-Mia here", "tokens": ["Eva-Mia", "here"], "entities": entities}]
    path = write(tmp_path / "train.jsonl", rows)
    assert tagged_texts.has_entities(path) and load(tmp_path).words[0][0] == "Eva"
    del rows[0]["entities"]
    assert not tagged_texts.has_entities(write(path, rows))


def test_types_that_differ_in_case_alone_are_a_fault_of_the_data(tmp_path):
    rows = [
        {"text": "Eva is", "entities": [{"start": 0, "end": 3, "label": name}]}
        for name in ("PER", "LOC", "per")
    ]
    write(tmp_path / "train.jsonl", rows)
    examples = load(tmp_path)
    (fault,) = (
        fault
        for fault in analysis.check_data(examples.spec, examples, examples).faults
        if "'B-PER' (train.jsonl, line 1) and 'B-per' (train.jsonl, line 5)" in fault
    )
    assert "expected names that differ" in fault
