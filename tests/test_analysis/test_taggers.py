"""Baselines of entities: a list of those that were trained on, and a linear model over words."""

import dataclasses

import numpy as np

from tfdistill import analysis, tasks
from tfdistill.analysis import taggers
from tfdistill.tasks import words

TASK = dataclasses.replace(tasks.task("ner"), labels=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"))


def examples(*sentences):
    """Examples of "word/tag" between blanks."""
    pairs = [[part.rpartition("/")[::2] for part in sentence.split()] for sentence in sentences]
    joined = [words.joined([word for word, _ in sentence]) for sentence in pairs]
    labels = np.empty(len(pairs), object)
    labels[:] = [np.array([TASK.labels.index(t) for _, t in row], np.int32) for row in pairs]
    texts, offsets = ([*part] for part in zip(*joined, strict=True))
    return tasks.Examples(TASK, texts, None, labels, word_offsets=offsets)


def answered(model, *sentences):
    rows = [sentence.split() for sentence in sentences]
    answers = model.predict(rows)
    assert answers.shape == (sum(map(len, rows)), len(TASK.labels))
    return " ".join(TASK.labels[index] for index in answers.argmax(axis=1))


def test_the_longest_entity_of_the_training_set_is_answered_with_its_usual_type():
    train = examples(
        "New/B-LOC York/I-LOC Times/O",
        "York/B-LOC New/O",
        "York/B-PER Minster/I-PER",
        "Paris/B-PER Paris/B-LOC",
        "Paris/B-LOC",
        "May/B-PER may/O May/O May/O",  # more often none than one
    )
    model = taggers.fit_gazetteer(TASK, train)
    assert model.num_weights == 4
    assert answered(model, "in New York New", "York Paris") == "O B-LOC I-LOC O B-LOC B-LOC"
    assert answered(model, "new york May") == "O O O"
    assert answered(model, "York Minster York") == "B-PER I-PER B-LOC"
    none = taggers.fit_gazetteer(TASK, examples("no/O one/O"))
    assert answered(none, "New York") == "O O"


def test_the_linear_tagger_knows_words_by_their_shape_and_their_neighbours():
    names = ["Anna", "Bodo", "Cleo", "Dora", "Emil", "Fritz", "Gerd", "Hugo"]
    train = examples(
        *(f"we/O meet/O {name}/B-PER in/O town/O" for name in names),
        *("we/O meet/O often/O in/O town/O" for _ in names),
        *(f"in/O {name}burg/B-LOC" for name in names),
        *("mr/O smith/B-PER" for _ in names),
        *("a/O smith/O" for _ in names),
    )
    model = taggers.fit_tagger(TASK, train)
    assert answered(model, "we meet Irma in town", "in Kreuzburg") == "O O B-PER O O O B-LOC"
    assert answered(model, "we meet seldom in town") == "O O O O O"
    assert answered(model, "mr smith", "a smith") == "O B-PER O O"
    shares = np.exp(model.predict([["we", "meet", "Irma"]])).sum(axis=1)
    np.testing.assert_allclose(shares, 1, atol=1e-5)
    assert not analysis.has_linear(TASK)  # of texts
    assert [taggers._shape(word) for word in ("Abc12", "USA", "naïve-X", "#7,5")] == [
        *("Xx0", "X", "x-X", "#0,0")
    ]
