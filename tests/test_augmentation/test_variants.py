"""Which words are exchanged, how draws are made, what becomes of pairs."""

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.augmentation import variants

# A text with two places that may change: "film" has two candidates, "bad" one.
TEXT = variants.ReplaceableText("the film is bad".split(), {1: ["movie", "film"], 3: ["good"]})


def drawn(seed, *, text=TEXT, copies=6, probability=0.5):
    generator = np.random.default_rng(seed)
    return variants.variants(text, copies=copies, probability=probability, generator=generator)


def test_only_pure_words_that_are_no_stop_words_may_be_exchanged():
    words = "the Film is good . 3d café don ' t re-watch x naïve bad".replace("-", " - ").split()
    places = variants.replaceable_positions(words, variants.STOP_WORDS)
    assert [words[place] for place in places] == ["good", "watch", "x", "bad"]
    assert variants.replaceable_positions(["the", "a"], frozenset({"a"})) == [0]


def test_variants_equal_a_loop_over_the_draws():
    for seed in range(20):
        draws = np.random.default_rng(seed).random((6, 2, 2))
        expected = []
        for draw in draws:
            words = list(TEXT.words)
            for (chance, choice), place in zip(draw, (1, 3), strict=True):
                if chance < 0.5:
                    offered = TEXT.candidates[place]
                    words[place] = offered[0] if choice < 1 / len(offered) else offered[-1]
            sentence = " ".join(words)
            if sentence != "the film is bad" and sentence not in expected:
                expected.append(sentence)
        assert drawn(seed) == expected


def test_draws_depend_on_seed_example_and_text_only():
    text = variants.ReplaceableText(["w"] * 30, {place: list("abcdefgh") for place in range(30)})

    def forms(index, *, seed=0, texts=(text,)):
        options = variants.AugmentOptions(copies=2, seed=seed)
        return list(variants.augmented_pairs(index, texts, options))

    assert forms(3) == forms(3)
    assert forms(3) == forms(3, texts=(text, text))[:2]
    firsts = [forms(3)[0][1], forms(4)[0][1], forms(3, seed=1)[0][1]]
    assert len({*firsts, forms(3, texts=(text, text))[2][1]}) == 4


@pytest.mark.parametrize(
    ("task", "copies"),
    [("mnli", 10), ("QQP", 10), ("sst2", 20), ("qnli", 20), ("cola", 30), ("my own", 30)],
)
def test_copies_are_the_published_ones(task, copies):
    assert variants.copies_for(task) == copies


def test_published_options_are_the_default():
    options = variants.AugmentOptions()
    assert (options.probability, options.num_candidates, options.copies) == (0.4, 15, 30)


@pytest.mark.parametrize(
    "changes",
    [
        {"copies": 0},
        {"num_candidates": 0},
        {"seed": -1},
        {"probability": 0.0},
        {"probability": 1.1},
        {"probability": float("nan")},
    ],
)
def test_options_out_of_range_are_refused_by_name(changes):
    (name,) = changes
    with pytest.raises(errors.ConfigError, match=f"{name}: expected"):
        variants.AugmentOptions(**changes)


def test_a_cell_holds_one_line_that_utf_8_can_hold():
    assert variants.cell("a\tb\nc\rd\u2028e\ud800f") == "a b c d\u2028ef"
