import itertools
import json

import pytest

from tfdistill import config, errors, tasks
from tfdistill.data import from_config, labelled_file, promise_rows, unlabelled

ROWS = [(f"this is, text {index}", ("yes", "no")[index % 2]) for index in range(100)]


def write(path, rows, header="text,label"):
    lines = [f'"{text}",{label}' for text, label in rows]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


ENDS = ("\r", "\r\n", "\n", " ")
TAGS = (["a|b"], ["c"], [], ["a|b", "c"])
# The name of the column of texts, its cells, those of the labels; what labels and separator become.
WRITTEN = {
    "classes": ("text", "this is, text {n}", ("yes", "no"), ("no", "yes"), ","),
    "line ends": ("text", "the film{end}is long {n}", ("a", "b"), ("a", "b"), ","),
    "lists of labels": ("text", "some text {n}", TAGS, ("a|b", "c"), ","),
    **{
        f"the column {name!r}": (name, "some text {n}", ("yes", "no"), ("no", "yes"), ",")
        for name in ("text (de|en|fr)", "a;b;c", 'the "text"; and, more', "a\tb\tc")
    },
}


@pytest.mark.parametrize("name, form, labels, expected, separator", WRITTEN.values(), ids=WRITTEN)
def test_what_is_written_is_read_back_as_the_same_task(
    tmp_path, name, form, labels, expected, separator
):
    texts = [form.format(n=index, end=ENDS[index % 4]) for index in range(100)]
    rows = [{name: text, "label": labels[i % len(labels)]} for i, text in enumerate(texts)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = labelled_file.read_labelled_file(tmp_path / "x.jsonl", "own", text=name)
    data.write(tmp_path / "data")
    seen = []
    for split in tasks.SPLITS:
        read = tasks.load_examples(data.task, tmp_path / "data", split)
        assert read.texts == data.sets[split].texts
        assert read.labels.tolist() == data.sets[split].labels.tolist()
        seen += read.texts
    assert sorted(seen) == sorted(text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
    assert (data.task.labels, data.task.label_separator) == (expected, separator)
    again = labelled_file.read_labelled_file(tmp_path / "x.jsonl", "own", text=name)
    assert again.sets["dev"].texts == data.sets["dev"].texts


def test_repeated_and_empty_rows_are_left_out_and_counted(tmp_path):
    rows = [*ROWS, ("THIS is,  text 3", "no"), ("this is, text 4", "no"), (" ", "no")]
    data = labelled_file.read_labelled_file(write(tmp_path / "x.csv", rows), "mine")
    assert "left out: 1 row(s) that repeat a text with its label, first line 102" in data.notes
    assert "left out: 1 row(s) without a text, first line 104" in data.notes
    parts = [
        split for split, part in data.sets.items() for text in part.texts if "text 4" == text[9:]
    ]
    assert len(parts) == 2 and len(set(parts)) == 1  # with two labels, but in one set


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [*ROWS, ("more", ""), ("most", " ")],
            "line 102, .*a label in every row, received an empty cell",
        ),
        (ROWS[:30], "at least 40 different texts, received 30"),
        ([(text, "yes") for text, _ in ROWS], "at least two different labels, received only 'yes'"),
    ],
)
def test_unusable_labels_are_refused(tmp_path, rows, told):
    with pytest.raises(errors.DataError, match=told):
        labelled_file.read_labelled_file(
            write(tmp_path / "x.csv", rows), "mine", text="text", label="label"
        )
    with pytest.raises(errors.ConfigError, match=r"several labels a text, .* add kind=.multi_"):
        labelled_file.read_labelled_file(write(tmp_path / "x.csv", ROWS), "mine", separator=";")


def test_texts_for_promises_are_taken_from_the_training_set_alone(tmp_path):
    path = tmp_path / "moods.csv"
    rows = [f"text {i},{'glad' if i % 3 else 'sad'}" for i in range(2000)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    usual = labelled_file.read_labelled_file(path, "moods")
    data = labelled_file.read_labelled_file(path, "moods", promise=True)
    texts = {name: set(examples.texts) for name, examples in data.sets.items()}
    assert len(texts["promise"]) == 200 and len(set().union(*texts.values())) == 2000
    assert texts["promise"] | texts["train"] == set(usual.sets["train"].texts)
    assert [texts[name] for name in ("dev", "test")] == [
        set(usual.sets[name].texts) for name in ("dev", "test")
    ]
    data.write(tmp_path)
    section = data.section(tmp_path)
    assert section["promise_on"] == str(tmp_path / "promise.csv")
    assert len((tmp_path / "promise.csv").read_text().splitlines()) == 201
    assert usual.section(tmp_path)["promise_on"] is None


@pytest.mark.parametrize(
    ("number", "effect"), [(44, "too few to raise"), (45, "half of them raise")]
)
def test_texts_of_no_label_are_counted_kept_and_not_in_the_labelled_file(number, effect, tmp_path):
    path, other = tmp_path / "moods.csv", tmp_path / "off.txt"
    rows = [f"text {i},{'glad' if i % 3 else 'sad'}" for i in range(670)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    other.write_text("".join(f"other {i}\n" for i in range(number)) + "Other  1\n")
    data = labelled_file.read_labelled_file(path, "moods", promise=True, other=other)
    assert f"other texts: {number}, {effect} the thresholds of sure answers" in data.notes
    (tmp_path / "run").mkdir()
    data.write(tmp_path / "run")
    section = data.section(tmp_path / "run")
    assert section["other"] == str(tmp_path / "run" / "other.txt")
    assert (tmp_path / "run" / "other.txt").read_bytes() == other.read_bytes()
    other.write_text("other\nTEXT 7\n")
    with pytest.raises(errors.DataError, match=r"off\.txt, line 2: 'TEXT 7'"):
        labelled_file.read_labelled_file(path, "moods", promise=True, other=other)


@pytest.mark.parametrize(
    ("labels", "count", "promising"),
    [
        ("glad sad", 670, "test.csv"),
        ("glad sad", 660, None),  # 99 of them are tested
        ("0.5 1.5 2.25 3.125", 670, None),
    ],
)
def test_of_few_texts_those_of_the_test_set_promise(labels, count, promising, tmp_path):
    path, names = tmp_path / "moods.csv", labels.split()
    rows = [f"text {i},{names[i % len(names)]}" for i in range(count)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    data = labelled_file.read_labelled_file(path, "moods", promise=True)
    assert sorted(data.sets) == ["dev", "test", "train"]
    expected = None if promising is None else str(tmp_path / promising)
    assert data.section(tmp_path)["promise_on"] == expected


@pytest.mark.parametrize("name", ["split", "is_test", "dataSplit"])
def test_a_column_of_sets_is_said_not_to_keep_them(tmp_path, name):
    rows = [(text, f"{label},{('train', 'test')[i % 2]}") for i, (text, label) in enumerate(ROWS)]
    path = write(tmp_path / "x.csv", rows, f"text,label,{name}")

    told = " ".join(labelled_file.read_labelled_file(path, "mine").notes)

    assert f"to keep the sets of '{name}', write a file of each" in told


@pytest.mark.parametrize(
    "labels, kind",
    [
        (["b", "a"], "classification"),
        (["0.25", "1.5", "2.125"], "regression"),
        (["x|y", "y", "x"], "multi_label"),
    ],
)
def test_a_run_reads_the_sets_of_a_file_that_is_gone(tmp_path, labels, kind):
    file, run = tmp_path / "rows.jsonl", tmp_path / "run"
    file.write_text(
        "".join(
            json.dumps({"words": f"some text {i}", "mark": labels[i % len(labels)]}) + "\n"
            for i in range(60)
        )
    )
    recipe = config.load_recipe("demo")
    section = config.DataConfig(task="rows", file=str(file), vocab="train:100", max_length=24)
    source = from_config.source_of(section, run / "data")
    task, dev = from_config.labelled(section, "dev", folder=source)
    (run / "recipe.yaml").write_text(
        config.dump_recipe(recipe.model_copy(update={"data": section}))
    )
    file.unlink()
    data = config.data_of_run(str(run))
    assert (data.file, data.dir, data.max_length) == (None, str(source), 24)
    again, rows = from_config.labelled(data, "dev")
    assert again == task and task.kind == kind
    assert rows.texts == dev.texts and (rows.labels == dev.labels).all()
    (source / config.SPLIT_FILE).write_text('{"bogus": 1}')
    with pytest.raises(errors.ConfigError, match=r"section\.json: 1 fault\.\s+- data\.bogus: "):
        config.data_of_run(str(run))


KINDS_OF_SIMILAR = {
    "numbers": lambda base, i: f"order {i}: {base} on day {i % 30}",
    "punctuation": lambda base, i: f"{base.title()}{'!?. ;:'[i % 6]}",
    "scripts": lambda base, i: f"\u8ba2\u5355{base}\u53f7\u7801{i}\u5df2\u7ecf\u53d1\u8d27",
}


@pytest.mark.parametrize("kind", KINDS_OF_SIMILAR)
def test_texts_that_differ_in_digits_and_punctuation_are_in_one_set(kind, tmp_path):
    names = ["".join(pair) for pair in itertools.product("abcdefg", "hijklmn")]
    rows = []
    for index in range(49 * 6):
        base = f"the {names[index % 49]} box is here"
        rows.append((KINDS_OF_SIMILAR[kind](base, index), "xy"[index % 49 % 2]))
    data = labelled_file.read_labelled_file(write(tmp_path / "x.csv", rows), "own")
    groups = [set(map(unlabelled.similar_text, part.texts)) for part in data.sets.values()]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 49
    assert all(30 <= len(data.sets[part].texts) <= 70 for part in ("dev", "test"))
    assert any(note.startswith("100% of the rows are like others") for note in data.notes)
    few = labelled_file.read_labelled_file(
        write(tmp_path / "few.csv", rows[: 49 + 7]), "own", few=True
    )
    (told,) = (note for note in few.notes if "like others" in note)
    assert few.cross_fitted and told.startswith("25% of the rows") and "too good" in told
    before = labelled_file.read_labelled_file(tmp_path / "x.csv", "own", similar_together=False)
    groups = [set(map(unlabelled.similar_text, part.texts)) for part in before.sets.values()]
    assert sum(map(len, groups)) > 49


def test_a_promise_counts_one_of_similar_texts_and_none_like_a_training_text(tmp_path, caplog):
    names = ["red", "blue", "green", "white"]
    rows = [(f"the {name} box is number {i}", "yes") for i in range(5) for name in names]
    task = tasks.TaskSpec("own", "text", "label", labels=("no", "yes"))
    path = write(tmp_path / "promise.csv", rows)
    train = tasks.Examples(task, ["The red box is number 99!"], None, None)
    left = promise_rows.promise_examples(str(path), task, [train])
    assert left.texts == [f"the {name} box is number 0" for name in names[1:]]
    assert "17 of 20 texts are like another one" in caplog.text
    train = tasks.Examples(task, [f"the {name} box is number 7" for name in names], None, None)
    assert promise_rows.promise_examples(str(path), task, [train]) is None
    with pytest.raises(errors.DataError, match="received texts that were used alone"):
        train = tasks.Examples(task, [text for text, _ in rows], None, None)
        promise_rows.promise_examples(str(path), task, [train])


def tagged_rows(form):
    """60 texts with their words and tags, some of which are those of another text."""
    kinds = ("PER", "LOC", "ORG")
    for index in range(60):
        words = ["the", f"Name{index}", "is", "-", "here."[: 5 if form == "words" else 4]]
        tags = ["O", f"B-{kinds[index % 3]}", "O", "O", "O"]
        if index % 10 == 0:
            tags[1] = "O"
        yield words, tags if form != "parts" else ["DET", "NOUN", "VERB", "PUNCT", "ADV"]


@pytest.mark.parametrize("form", ["spans", "words", "parts", "tokens"])
def test_a_file_of_words_with_tags_is_split_written_and_read_back(tmp_path, form):
    path = tmp_path / ("x.conll" if form in ("words", "parts") else "x.jsonl")
    with path.open("w", encoding="utf-8") as file:
        for words, tags in tagged_rows(form):
            if path.suffix == ".conll":
                lines = [f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)]
                file.writelines([*lines, "\n"])
            elif form == "tokens":
                file.write(json.dumps({"tokens": words, "ner_tags": tags}) + "\n")
            else:
                text, span = " ".join(words), {"start": 4, "end": 4 + len(words[1])}
                spans = [{**span, "label": tags[1][2:]}] if tags[1] != "O" else []
                file.write(json.dumps({"text": text, "spans": spans}) + "\n")
    data = labelled_file.read_labelled_file(path, "own", promise=True)
    task = data.task
    # Of running text Name1 is two words.
    keys = {"spans": ("text", "entities"), "words": ("tokens", "ner_tags")}
    assert (task.text_column, task.label_column) == keys["spans" if form == "spans" else "words"]
    assert task.metrics == (("accuracy",) if form == "parts" else tasks.KINDS["token"].metrics)
    data.write(tmp_path / "data")
    section = data.section(tmp_path / "data")
    assert section["labels"] == task.labels  # the training set may lack a type
    settings = config.DataConfig(**section)
    total = 0
    for split in tasks.SPLITS:
        read_task, read = from_config.labelled(settings, split)
        assert read_task.labels == task.labels
        assert read.texts == data.sets[split].texts
        assert read.words == data.sets[split].words
        assert [row.tolist() for row in read.labels] == [
            row.tolist() for row in data.sets[split].labels
        ]
        total += len(read)
    assert total == 60
    if form != "parts":
        assert {name for name in task.labels if name[:2] == "B-"} == {"B-LOC", "B-ORG", "B-PER"}
        begins = [task.labels.index(f"B-{kind}") for kind in ("LOC", "ORG", "PER")]
        for split in ("dev", "test"):  # each type is in each set
            in_set = {tag for row in data.sets[split].labels for tag in row.tolist()}
            assert in_set.issuperset(begins)


def test_a_plain_name_needs_the_kind_and_options_of_other_data_are_refused(tmp_path):
    lines = "".join(f"Name{index}\tB-PER\nwent\tO\n\n" for index in range(50))
    (tmp_path / "x.txt").write_text(lines)
    data = labelled_file.read_labelled_file(tmp_path / "x.txt", "own", kind="token")
    assert data.task.labels == ("O", "B-PER", "I-PER") and sum(map(len, data.sets.values())) == 50
    for more in ({"pair": "1"}, {"separator": "|"}):
        with pytest.raises(errors.ConfigError, match="none of words with tags, received"):
            labelled_file.read_labelled_file(tmp_path / "x.txt", "own", kind="token", **more)
    with pytest.raises(errors.ConfigError, match=r"data\.offsets: expected none of texts with"):
        labelled_file.read_labelled_file(write(tmp_path / "x.csv", ROWS), "own", offsets="utf-8")


@pytest.mark.parametrize("form", ["spans", "tokens"])
def test_texts_that_nobody_tagged_are_kept_apart_but_for_those_like_held_out_ones(tmp_path, form):
    rows = []
    for words, tags in tagged_rows(form):
        text, span = " ".join(words), {"start": 4, "end": 4 + len(words[1]), "label": "PER"}
        spans = {"text": text, "spans": [span]}
        rows.append(spans if form == "spans" else {"tokens": words, "ner_tags": tags})
    path = tmp_path / "x.jsonl"

    def read(more):
        path.write_text("\n".join(map(json.dumps, [*rows, *more])))
        options = {"promise": True, "similar_together": False}  # the names differ in a number
        return labelled_file.read_labelled_file(path, "own", **options)

    def bare(text):
        return {"text": text} if form == "spans" else {"tokens": text.split(" ")}

    plain = read([])
    assert plain.bare is not None and not len(plain.bare)
    assert "unlabelled" not in plain.section(tmp_path) and plain.sizes["unlabelled"] == 0
    held = plain.sets["test"].texts[0]
    train = plain.sets["train"].texts[0]
    new = ["who went to Oslo then -", "Ann (in Rio)"]
    data = read(map(bare, [new[0], f"{held} 9", held, train, new[1], new[0]]))
    assert {n: part.texts for n, part in data.sets.items()} == {
        n: part.texts for n, part in plain.sets.items()
    }
    assert data.bare.texts == new and data.sizes["unlabelled"] == 2
    (note,) = (note for note in data.notes if "nobody annotated" in note)
    assert "annotated 6 texts: a student is distilled from 2 of them, 4 are left out" in note
    data.write(tmp_path)
    settings = config.DataConfig(**data.section(tmp_path))
    again = unlabelled.read_unlabelled(data.task, settings.unlabelled).examples
    assert again.words == data.bare.words and again.labels is None
    assert tasks.load_examples(data.task, tmp_path, "train").texts == data.sets["train"].texts
