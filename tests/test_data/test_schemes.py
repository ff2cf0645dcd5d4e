"""Schemes of tags, and scores as seqeval computes them."""

import pytest

from tfdistill import errors, tasks
from tfdistill.tasks import schemes, tags

# Random files with errors, sentences between bars; F1, precision and recall as seqeval 1.2.2 gives
# them, in its default mode, for BIOES and BILOU with mode="strict".
SCORES = [
    (
        "IO",
        "I-A | O O O I-A O I-A O I-A",
        "I-A | O O O I-A O O I-A I-A",
        (0.571429, 0.666667, 0.500000),
    ),
    (
        "IO",
        "I-A I-A I-A I-A O I-B | I-A O I-A I-A O I-B O",
        "I-A I-A I-A I-B O I-B | I-A O I-B I-A O I-B O",
        (0.500000, 0.428571, 0.600000),
    ),
    (
        "IO",
        "I-C-D I-A O O I-A I-A I-A I-C-D",
        "I-C-D I-A O I-C-D I-A I-A I-A I-C-D",
        (0.888889, 0.800000, 1.000000),
    ),
    (
        "IO",
        "I-A I-A I-C-D I-C-D I-C-D I-B I-C-D",
        "I-A O I-C-D O I-C-D I-B I-C-D",
        (0.444444, 0.400000, 0.500000),
    ),
    (
        "BIO",
        "O | B-A I-A I-A B-B | O O O B-B B-B B-A O B-A I-A",
        "O | B-A I-A I-B B-B | O O O B-B B-B I-A O B-A I-A",
        (0.769231, 0.714286, 0.833333),
    ),
    (
        "BIO",
        "B-A I-A I-A B-A I-A I-A B-A I-A I-A | B-A",
        "B-A B-A I-A B-A I-A O B-A I-A I-A | B-A",
        (0.444444, 0.400000, 0.500000),
    ),
    (
        "BIO",
        "B-A B-B B-B B-B B-A | O B-A I-A I-A B-A | I-A O B-A B-B B-A B-A O",
        "B-A B-B B-B B-B B-A | B-B B-A I-A I-A I-A | I-A O B-A I-B B-A B-A I-B",
        (0.800000, 0.769231, 0.833333),
    ),
    ("IOB1", "I-A I-A O B-A B-A O", "I-A I-A O B-A I-A I-A", (0.400000, 0.500000, 0.333333)),
    (
        "IOB1",
        "I-A I-A I-A B-A I-A I-A I-A I-A I-A | I-A",
        "I-A B-A I-A B-A I-A O B-A I-A I-A | I-A",
        (0.250000, 0.200000, 0.333333),
    ),
    (
        "IOB1",
        "I-A B-B I-B B-B I-A | O I-A I-A I-A B-A | I-A O I-A I-B I-A B-A O",
        "I-A B-B I-B B-B I-A | B-B I-A I-A I-A I-A | I-A O I-A I-B I-A B-A I-B",
        (0.782609, 0.750000, 0.818182),
    ),
    (
        "BIOES",
        "O O O S-A O B-A E-A | O S-A O B-A S-A E-A",
        "O S-A E-A E-A S-A O B-A | I-A O I-A S-A S-A S-A",
        (0.222222, 0.200000, 0.250000),
    ),
    (
        "BIOES",
        "O O B-A E-A O O B-A | O O S-A O | B-A E-A O B-A E-A B-A I-A E-A",
        "O O B-A E-A O O B-A | O O S-A O | B-A E-A B-A B-A E-A E-A I-A E-A",
        (0.888889, 1.000000, 0.800000),
    ),
    (
        "BIOES",
        "S-C-D O B-C-D E-C-D | O B-A I-A E-A B-A E-A O I-B E-B | S-B B-C-D E-C-D S-B",
        "S-C-D O B-C-D E-C-D | O B-A I-A E-A B-A B-B O I-B E-B | S-B B-C-D E-C-D S-B",
        (0.923077, 1.000000, 0.857143),
    ),
    (
        "BIOES",
        "S-A B-C-D E-C-D O O S-A | B-C-D I-C-D E-C-D",
        "S-A B-C-D E-C-D O O S-A | E-B I-C-D E-C-D",
        (0.857143, 1.000000, 0.750000),
    ),
    (
        "BILOU",
        "O O O U-A O B-A L-A | O U-A O B-A U-A L-A",
        "O U-A L-A L-A U-A O B-A | I-A O I-A U-A U-A U-A",
        (0.222222, 0.200000, 0.250000),
    ),
    (
        "BILOU",
        "O O B-A L-A O O B-A | O O U-A O | B-A L-A O B-A L-A B-A I-A L-A",
        "O O B-A L-A O O B-A | O O U-A O | B-A L-A B-A B-A L-A L-A I-A L-A",
        (0.888889, 1.000000, 0.800000),
    ),
    (
        "BILOU",
        "U-C-D O B-C-D L-C-D | O B-A I-A L-A B-A L-A O I-B L-B | U-B B-C-D L-C-D U-B",
        "U-C-D O B-C-D L-C-D | O B-A I-A L-A B-A B-B O I-B L-B | U-B B-C-D L-C-D U-B",
        (0.923077, 1.000000, 0.857143),
    ),
    (
        "BILOU",
        "U-A B-C-D L-C-D O O U-A | B-C-D I-C-D L-C-D",
        "U-A B-C-D L-C-D O O U-A | L-B I-C-D L-C-D",
        (0.857143, 1.000000, 0.750000),
    ),
]


def sentences(text):
    return [sentence.split() for sentence in text.split(" | ")]


@pytest.mark.parametrize("scheme, gold, answers, figures", SCORES)
def test_scores_equal_those_of_seqeval_in_every_scheme(scheme, gold, answers, figures):
    gold, answers = (schemes.to_bio(sentences(text), "a file")[1] for text in (gold, answers))
    scores = tags.tag_metrics(gold, answers)
    names = ("entity_f1", "entity_precision", "entity_recall")
    assert [scores[name] for name in names] == pytest.approx(figures, abs=1e-6)


@pytest.mark.parametrize(
    "scheme, text, expected",
    [
        ("IO", "I-A I-A O I-B", "B-A I-A O B-B"),
        ("BIO", "B-A I-A B-A | I-A O", "B-A I-A B-A | B-A O"),
        ("IOB1", "I-A B-A I-B | O I-A", "B-A B-A B-B | O B-A"),
        ("BIOES", "S-A B-A I-A E-A | B-A E-B O I-A", "B-A B-A I-A I-A | O O O O"),
        ("BILOU", "U-A-B B-A L-A | B-A U-A L-A", "B-A-B B-A I-A | O B-A O"),
        ("", "NN-X O | B-A", "NN-X O | B-A"),  # word tags of another kind, a few like entities
        ("", "DET NOUN | S", "DET NOUN | S"),
        ("", "O O | O", "O O | O"),
    ],
)
def test_a_scheme_is_recognised_and_written_as_bio(scheme, text, expected):
    assert schemes.to_bio(sentences(text), "a file") == (scheme, sentences(expected))


def test_two_schemes_in_one_file_are_refused_and_another_one_in_dev_is_converted(tmp_path, caplog):
    (tmp_path / "train.conll").write_text("Anna U-PER\nin O\n\nNew B-LOC\nYork L-LOC\n")
    (tmp_path / "dev.conll").write_text("Rio I-LOC\nEva I-PER\n")
    caplog.set_level("INFO")
    loaded = [tasks.load_examples(tasks.task("ner"), tmp_path, name) for name in ("train", "dev")]
    assert loaded[0].spec.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert [part.labels[0].tolist() for part in loaded] == [[3, 0], [1, 3]]
    said = ["train.conll: tags in BILOU are read as BIO", "dev.conll: tags in IO are read as BIO"]
    assert [message.rpartition("/")[2] for message in caplog.messages] == said
    (tmp_path / "dev.conll").write_text("Rio S-LOC\nEva U-PER\n")
    with pytest.raises(errors.DataError, match="BIOES or BILOU, received both, such as S-LOC and"):
        tasks.load_examples(tasks.task("ner"), tmp_path, "dev")
