"""CoNLL files, tags on pieces, and entities."""

import dataclasses

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import batches, tagged_words
from tfdistill.tasks import conll, tags
from tfdistill.tasks.encoded import spans
from tfdistill.tasks.words import joined

NER = tasks.task("ner")
TAGGED = dataclasses.replace(NER, labels=("O", "B-X", "I-X"))


def write(folder, text, name="train.txt", encoding="utf-8"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffa\tO\nb\tB-X\n\nc\tO",
        "a O\r\nb B-X\r\n\r\nc O\r\n",
        "\n\na O\nb B-X\n\t\n \n\nc O\n\n\n",
        "a   O\nb  B-X\n-DOCSTART- O\nc O\n-DOCSTART-\n",
    ],
)
def test_blanks_breaks_and_marks_of_all_sorts(tmp_path, text):
    sentences = conll.read_sentences(write(tmp_path, text))
    assert (sentences.words, sentences.tags) == ([["a", "b"], ["c"]], [["O", "B-X"], ["O"]])


def test_columns_are_counted_from_either_end(tmp_path):
    path = write(tmp_path, "1 EU NNP B-ORG\n2 says VBZ O\n")
    sentences = conll.read_sentences(path, word_column=1, tag_column=2)
    assert (sentences.words, sentences.tags) == ([["EU", "says"]], [["NNP", "VBZ"]])
    assert conll.read_sentences(path, word_column=-3, tag_column=-1).tags == [["B-ORG", "O"]]
    assert conll.read_sentences(path, word_column=1, tag_column=3).tags == [["B-ORG", "O"]]
    assert conll.read_sentences(path, word_column=1, tag_column=1).tags == [["EU", "says"]]
    for column, least in ((4, 5), (5, 6), (-5, 5)):
        message = rf"train\.txt, line 1: expected at least {least} columns"
        with pytest.raises(errors.DataError, match=message):
            conll.read_sentences(path, tag_column=column)


def test_of_conll_u_the_words_of_the_text_alone_are_read(tmp_path):
    rest = "\t".join("______")
    rows = [
        (1, "le", "DET"),
        ("2-3", "du", "_"),
        (2, "de", "ADP"),
        ("2.1", "x", "VERB"),
        (3, "#", "X"),
    ]
    lines = [f"{number}\t{word}\t{word}\t{tag}\t{rest}" for number, word, tag in rows]
    text = "\n".join(["# sent_id = 1", "# text = le du", *lines, "", "# newdoc", lines[0]])
    path = tmp_path / "train.conll"
    path.write_text(text)
    sentences = conll.read_sentences(path, word_column=1, tag_column=3)
    assert sentences.words == [["le", "de", "#"], ["le"]]
    assert sentences.tags == [["DET", "ADP", "X"], ["DET"]]
    assert sentences.lines == [[3, 5, 7], [10]]


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("EU NNP B-ORG\nsays\n", (0, -2), "line 2: expected at least 2 columns, .* 1: 'says'"),
        # Another column would be taken for the word or the tag, or a word for its own tag.
        *((f"in\tIN\tO\n{line}\n", (0, -1), "line 2: expected 3 columns, as in line 1")
          for line in ("Paris\tNNP\t", "\tParis\tO", "# id 7 domain=en", "\u00a0 NNP O")),
        *(("EU NNP B-ORG\nsays\n", columns, "line 2: expected at least 2 columns")
          for columns in ((0, -1), (-1, 0))),
        ("EU NNP B-ORG\nsays VBZ\n", (1, -1), "line 2: expected at least 3 columns"),
        *((text, (0, -1), "expected words with tags")
          for text in ("", "\n\n", "-DOCSTART- -X- O O\n\n")),
    ],
)  # fmt: skip
def test_lines_of_other_columns_are_named_and_files_without_words_refused(
    tmp_path, text, columns, says
):
    path = write(tmp_path, text)
    with pytest.raises(errors.DataError, match=says):
        conll.read_sentences(path, word_column=columns[0], tag_column=columns[1])


def test_other_encodings_are_read_on_request(tmp_path):
    path = write(tmp_path, "Österreich B-LOC\n", encoding="latin-1")
    assert conll.read_sentences(path, encoding="latin-1").words == [["Österreich"]]
    with pytest.raises(errors.DataError, match=r"line 1: expected UTF-8 text, received byte 0xd6"):
        conll.read_sentences(path)
    with pytest.raises(errors.ConfigError, match=r"encoding: .* received 'latin-11'"):
        conll.read_sentences(path, encoding="latin-11")


def test_other_tags_need_another_metric_and_columns_a_number(tmp_path):
    write(tmp_path, "EU NNP\nsays VBZ\n")
    with pytest.raises(errors.ConfigError):
        tasks.load_examples(NER, tmp_path, "train")
    with pytest.raises(errors.ConfigError, match=r"column of a CoNLL file: .* received 'tag'"):
        tasks.load_examples(dataclasses.replace(NER, label_column="tag"), tmp_path, "train")
    parts = dataclasses.replace(NER, metrics=("accuracy",), primary_metric="accuracy")
    assert tasks.load_examples(parts, tmp_path, "train").spec.labels == ("NNP", "VBZ")


@pytest.mark.parametrize("keys", [("tokens", "ner_tags"), ("text", "entities")])
def test_a_task_that_read_records_reads_the_usual_columns_of_conll_files(tmp_path, keys):
    write(tmp_path, "EU NNP B-ORG\nsays VBZ O\n")
    of_records = dataclasses.replace(NER, text_column=keys[0], label_column=keys[1])
    read = tasks.load_examples(of_records, tmp_path, "train")
    assert read.texts == tasks.load_examples(NER, tmp_path, "train").texts
    assert [read.spec.labels[tag] for tag in read.labels[0]] == ["B-ORG", "O"]
    (note,) = of_records.read_tagged(tmp_path / "train.txt").notes
    assert note == f"{keys[0]!r} and {keys[1]!r}: keys of records; read are columns 0 and -1"


# Tags on pieces.


def encode(tokenizer, words, tags, max_length=20):
    arrays = None if tags is None else [np.array(row, np.int32) for row in tags]
    texts, offsets = zip(*map(joined, words), strict=True)
    return tagged_words.encode_words(texts, offsets, arrays, tokenizer, max_length)


def test_the_first_piece_of_a_word_has_its_tag(tokenizer):
    encoded = encode(tokenizer, [["playing", "a", "film."], ["sets"]], [[1, 0, 2], [3]])
    assert [tokenizer.vocab[i] for i in encoded.row(0)] == [
        *("[CLS]", "play", "##ing", "a", "film", ".", "[SEP]")
    ]
    assert encoded.labels.tolist() == [-100, 1, -100, 0, 2, -100, -100, -100, 3, -100, -100]
    assert encoded.sources.tolist() == [0, 1]
    assert not encoded.types.any()


def test_a_word_without_pieces_is_unknown_but_keeps_its_tag(tokenizer):
    words = ["\u00ad", "good", "中国", "é", "\ufeff"]  # both ends of it are dropped
    encoded = encode(tokenizer, [words], [[1, 2, 3, 4, 5]])
    pieces = [tokenizer.vocab[i] for i in encoded.row(0)]
    assert pieces == ["[CLS]", "[UNK]", "good", "[UNK]", "[UNK]", "e", "[UNK]", "[SEP]"]
    assert encoded.labels.tolist() == [-100, 1, 2, 3, -100, 4, 5, -100]
    alone = encode(tokenizer, [["good", "\u00ad"]], [[1, 2]])
    assert [tokenizer.vocab[i] for i in alone.row(0)] == ["[CLS]", "good", "[UNK]", "[SEP]"]


def test_a_word_that_is_longer_than_a_window_is_answered_once(tokenizer):
    encoded = encode(tokenizer, [["a", "zzzzzzzz", "b"]], [[0, 1, 2]], max_length=5)
    assert encoded.lengths.tolist() == [5] * 8
    assert encoded.labels[encoded.labels >= 0].tolist() == [0, 1, 2]
    with pytest.raises(errors.DataError, match="max_length: expected at least 3"):
        encode(tokenizer, [["a"]], [[0]], max_length=2)


def test_batches_pad_tags_with_no_label(tokenizer):
    encoded = encode(tokenizer, [["a", "playing"], ["good"]], [[1, 2], [3]])
    weighted = dataclasses.replace(encoded, weights=np.array([1.0, 0.5], np.float32))
    rows = batches.Batches(weighted, batch_size=2, shuffle=False)
    ((features, labels, weights),) = rows.dataset().as_numpy_iterator()
    assert features["input_ids"].shape == labels.shape == (2, 5)
    assert labels.tolist() == [[-100, 3, -100, -100, -100], [-100, 1, 2, -100, -100]]
    assert weights.tolist() == [0.5, 1.0]
    long = batches.Batches(encoded, batch_size=2, bucketing=False, max_length=7)
    assert next(iter(long.dataset()))[1].shape == (2, 7)


def test_features_of_tokens_are_padded_with_zeros_and_of_every_token(tokenizer):
    encoded = encode(tokenizer, [["a", "playing"], ["good"]], None)
    rows = np.arange(1, 1 + 2 * encoded.num_tokens, dtype=np.float32).reshape(-1, 2)
    built = batches.Batches(encoded, batch_size=2, shuffle=False, token_extra={"more": rows})
    (features,) = built.dataset().as_numpy_iterator()
    assert features["more"].shape == (2, 5, 2)
    np.testing.assert_array_equal(features["more"][0, :3], rows[5:])
    np.testing.assert_array_equal(features["more"][1], rows[:5])
    assert not features["more"][0, 3:].any()
    with pytest.raises(errors.ShapeError):
        batches.Batches(encoded, token_extra={"more": rows[1:]})
    with pytest.raises(errors.ShapeError):
        dataclasses.replace(encoded, labels=np.array([1], np.int32))


# Entities, worked out by hand after the rules of the CoNLL-2000/2003 evaluation.


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-PER I-PER O B-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),
        ("B-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),
        ("B-PER I-LOC", {("PER", 0, 1), ("LOC", 1, 2)}),  # another type: another entity
        ("I-PER I-PER O I-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),  # IOB1
        ("I-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),  # IOB1: two side by side
        ("I-PER I-LOC I-LOC B-LOC", {("PER", 0, 1), ("LOC", 1, 3), ("LOC", 3, 4)}),
        ("O I-PER", {("PER", 1, 2)}),
        ("B-a-b I-a-b", {("a-b", 0, 2)}),
    ],
)
def test_entities_are_found_in_both_forms(tags, expected):
    assert conll.entities(tags.split()) == expected


def scored(gold, answers):
    return tags.tag_metrics([row.split() for row in gold], [row.split() for row in answers])


def test_an_entity_counts_only_with_type_and_both_ends_right():
    gold = ["B-PER I-PER O B-LOC", "B-ORG O O O"]
    answers = ["B-PER O O B-LOC", "B-LOC O B-ORG I-ORG"]  # only the first LOC is right
    assert scored(gold, answers) == {
        "entity_precision": 1 / 4,
        "entity_recall": 1 / 3,
        "entity_f1": pytest.approx(2 * (1 / 4) * (1 / 3) / (1 / 4 + 1 / 3)),
        "accuracy": 4 / 8,
    }


def test_without_entities_the_scores_are_zero():
    assert scored(["O O"], ["O O"])["entity_f1"] == 0.0
    assert scored(["B-PER"], ["O"]) == dict.fromkeys(NER.metrics, 0.0)
    for gold, answers, words in ((["O O"], ["O"], 2), ([""], [""], 0), ([], [], 0)):
        with pytest.raises(errors.ShapeError, match=f"one for each of {words} words"):
            scored(gold, answers)


def test_rows_of_one_sentence_are_scored_together(tokenizer):
    # The entity goes over the cut between the two rows of the first sentence.
    words = [["a", "b", "c", "d"], ["good"]]
    encoded = encode(tokenizer, words, [[0, 1, 2, 0], [1]], max_length=4)
    assert encoded.sources.tolist() == [0, 0, 0, 1]
    logits = np.zeros((encoded.num_tokens, 3))
    for token, label in enumerate(encoded.labels):
        logits[token, label if label >= 0 else 1] = 3.0
    scores = TAGGED.score(logits, encoded)
    assert scores == dict.fromkeys(TAGGED.metrics, 1.0)
    wrong = logits.copy()
    wrong[encoded.word_tokens[2]] = [0, 9, 0]  # c becomes B-X: two short ones for the long one
    assert TAGGED.score(wrong, encoded)["entity_precision"] == pytest.approx(1 / 3)
    rows = [0, 3, 1, 2]  # another sentence comes between the rows
    apart = encoded.select(rows)
    places = spans(encoded.offsets[rows], encoded.lengths[rows])
    scores = TAGGED.score(wrong[places], apart)
    assert scores["entity_precision"] == pytest.approx(1 / 3)
    with pytest.raises(errors.ShapeError, match=r"shapes \(15, 3\) and \(15,\)"):
        TAGGED.score(logits[:-1], encoded)


def test_an_entity_ends_with_its_sentence(tokenizer):
    encoded = encode(tokenizer, [["a", "b"], ["c", "d"], ["a"]], [[0, 1], [1, 0], [1]])
    logits = np.zeros((encoded.num_tokens, 3))
    logits[encoded.word_tokens, [0, 1, 2, 0, 1]] = 3.0  # I-X would go on with the sentence before
    logits[encoded.word_tokens, 1] += 2.0
    assert TAGGED.score(logits, encoded) == dict.fromkeys(TAGGED.metrics, 1.0)


@pytest.mark.parametrize(
    ("gold", "answers", "expected"),  # right, wrong type, wrong edge, missed, invented
    [
        ("B-X I-X O B-Y", "B-X I-X O B-Y", (2, 0, 0, 0, 0)),
        ("B-X I-X O B-Y", "B-Y I-Y O O", (0, 1, 0, 1, 0)),
        ("B-X I-X O O", "B-X O O B-X", (0, 0, 1, 0, 1)),
        ("O B-X I-X I-X", "B-Y I-Y B-X I-X", (0, 0, 1, 0, 1)),  # an entity counts once
        ("B-X I-X I-X B-Y", "B-X B-X B-X I-X", (0, 0, 2, 0, 1)),
        ("B-X B-X O O", "B-X I-X O B-X", (0, 0, 1, 1, 1)),
        ("O O", "O B-X", (0, 0, 0, 0, 1)),
    ],
)
def test_entities_are_right_of_another_type_of_another_edge_missed_or_invented(
    gold, answers, expected
):
    gold, answers = (["B-X", "O"], gold.split()), (["B-X", "O"], answers.split())
    counts = tags.entity_counts(gold, answers)
    assert tuple(counts.values()) == (expected[0] + 1, *expected[1:])
    total = sum(len(conll.entities(row)) for row in gold)
    assert sum(expected[:4]) + 1 == total


def test_a_task_counts_its_entities_and_none_of_other_tags(tokenizer):
    encoded = encode(tokenizer, [["a", "b"], ["c"]], [[1, 2], [0]])
    logits = np.zeros((encoded.num_tokens, 3))
    logits[encoded.word_tokens, [1, 2, 1]] = 3.0
    counts = TAGGED.traits.counts(TAGGED, logits, encoded)
    assert (counts["right"], counts["invented"], sum(counts.values())) == (1, 1, 2)
    parts = dataclasses.replace(
        TAGGED, labels=("A", "B", "C"), metrics=("accuracy",), primary_metric=""
    )
    assert parts.traits.counts(parts, logits, encoded) == {}
