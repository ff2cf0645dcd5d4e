import collections

import numpy as np
import pytest
import tensorflow as tf
import toys
import unigrams

from tfdistill import errors
from tfdistill.data import batches, noise, streaming
from tfdistill.tokenization import unigram


def changed(tokenizer, batch, *, step=0, **options):
    after = tf.function(noise.TokenNoise(tokenizer, **options))(
        batch, tf.constant([5, step], tf.int64)
    )
    assert after.keys() == batch.keys()
    for name in ("attention_mask", "token_type_ids"):
        np.testing.assert_array_equal(after[name], batch[name])
    assert after["input_ids"].dtype == tf.int32
    return after["input_ids"].numpy(), batch["input_ids"].numpy()


def test_special_tokens_and_padding_stay_and_none_is_drawn(tokenizer):
    batch = toys.token_rows(tokenizer, (2, 3, 9, 200, 64))
    after, before = changed(tokenizer, batch, share=1.0, highest_rate=1.0)
    special = np.isin(before, tokenizer.special_ids)
    np.testing.assert_array_equal(after[special], before[special])
    assert not np.isin(after[~special], tokenizer.special_ids).any()
    assert (after[~special] != before[~special]).mean() > 0.2


def test_a_share_of_the_examples_is_changed_at_rates_up_to_the_highest(tokenizer):
    batch = toys.token_rows(tokenizer, (400,) * 400)
    for share, highest in ((1.0, 0.5), (0.3, 0.8)):
        after, before = changed(tokenizer, batch, share=share, highest_rate=highest)
        kinds = tokenizer.vocab_size - len(tokenizer.special_ids)
        rates = (after != before)[:, 1:399].mean(axis=1) / (1 - 1 / kinds)
        touched = rates > 0
        assert touched.mean() == pytest.approx(share, abs=0.07)
        # Uniform from 0 to the highest rate: its mean, its variance, and no row beyond it.
        assert rates[touched].mean() == pytest.approx(highest / 2, abs=0.035)
        assert rates[touched].std() == pytest.approx(highest / 12**0.5, abs=0.025)
        assert rates.max() < highest + 0.08


def test_replacements_are_as_frequent_as_in_the_batch(tokenizer):
    rare, often, other = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.special_ids)[:3]
    batch = toys.token_rows(tokenizer, (300,) * 60, ids=[rare, *[often] * 3, *[other] * 6])
    after, before = changed(tokenizer, batch, share=1.0, highest_rate=1.0)
    left = after[(before == other) & (after != other)]  # 1 : 3 among what replaced the third
    assert (left == often).mean() == pytest.approx(0.75, abs=0.03)
    assert set(np.unique(left)) == {rare, often}


def test_epochs_differ_and_a_resumed_stream_does_not(tokenizer):
    encoded = tokenizer.encode_batch(["the film is not good.", "a story, it is bad!", "seven"] * 3)
    examples = batches.EncodedExamples(
        encoded.ids, encoded.offsets, encoded.types, np.arange(9, dtype=np.int32)
    )

    def stream(**options):
        plain = batches.Batches(examples, batch_size=9, shuffle=False)
        noisy = streaming.MappedBatches(plain, noise.TokenNoise(tokenizer, share=1.0), seed=3)
        return [(x["input_ids"].numpy(), y.numpy()) for x, y in noisy.dataset(**options)]

    whole = stream(epochs=3)
    assert (whole[0][0] != whole[1][0]).any()
    tf.nest.map_structure(np.testing.assert_array_equal, whole[1:], stream(epochs=3, start_step=1))


@pytest.fixture(params=["wordpiece", "unigram"])
def pairing(request, tokenizer):
    """A tokenizer of each kind: one and two separators between the texts of a pair."""
    return tokenizer if request.param == "wordpiece" else unigrams.unigram()


def pairs_of(tokenizer, sizes, *, width):
    """Rows [CLS] A [SEP] B [SEP] of texts that share no token, and the texts."""
    ordinary = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.special_ids).tolist()
    texts, columns = [], {"input_ids": [], "attention_mask": [], "token_type_ids": []}
    for size in sizes:
        first, second = ([ordinary.pop() for _ in range(length)] for length in size)
        texts.append((first, second))
        template = tokenizer.template
        between = [tokenizer.sep_id] * (template.separators if second else 1)
        row = [tokenizer.cls_id, *first, *between]
        types = [0] * len(row) + [template.second_type] * (len(second) + 1 if second else 0)
        row += [*second, tokenizer.sep_id] if second else []
        padding = width - len(row)
        columns["input_ids"].append(row + [tokenizer.pad_id] * padding)
        columns["attention_mask"].append([1] * len(row) + [0] * padding)
        columns["token_type_ids"].append(types + [0] * padding)
    features = {name: tf.constant(values, tf.int32) for name, values in columns.items()}
    return {**features, "weight": tf.range(len(sizes))}, texts


def read_pair(tokenizer, features, row):
    """The two texts of a row, read by its mask, separators and types."""
    ids, mask, types = (
        features[name][row].numpy() for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    count = mask.sum()
    np.testing.assert_array_equal(mask, np.arange(len(mask)) < count)  # no holes
    assert (ids[count:] == tokenizer.pad_id).all() and not types[count:].any()
    template = tokenizer.template
    cut = ids.tolist().index(tokenizer.sep_id) + template.separators
    first, second = ids[:cut], ids[cut:count]
    assert not types[:cut].any() and (types[cut:count] == template.second_type).all()
    assert first[0] == tokenizer.cls_id and second[-1] == tokenizer.sep_id
    assert (first[-template.separators :] == tokenizer.sep_id).all()
    return first[1 : -template.separators].tolist(), second[:-1].tolist()


@pytest.mark.slow
def test_pairs_become_unrelated_equal_or_exchanged_ones(pairing):
    sizes = [(2, 5), (4, 1), (1, 3), (7, 2), (3, 3), (1, 1), (5, 6), (6, 4)]
    separators = pairing.template.separators
    width = 13 + separators  # the longest row; some of the new pairs do not fit
    batch, texts = pairs_of(pairing, sizes, width=width)
    change = tf.function(noise.PairNoise(pairing, share=0.6))
    counts: collections.Counter[str] = collections.Counter()
    cut = 0
    for step in range(150):
        after = change(batch, tf.constant([5, step], tf.int64))
        assert after.keys() == batch.keys() and after["weight"] is not None
        for row, (own_first, own_second) in enumerate(texts):
            noised = read_pair(pairing, after, row)
            kinds = {"exchanged": (own_second, own_first), "equal": (own_first, own_first)}
            kinds["as it was"] = (own_first, own_second)
            for _, second in texts:
                if second != own_second:
                    kinds[f"unrelated {second}"] = (own_first, second)
            fits = {
                name: (first, second[: width - 2 - separators - len(first)])
                for name, (first, second) in kinds.items()
            }
            (kind,) = (name for name, pair in fits.items() if pair == noised)
            cut += fits[kind] != kinds[kind]
            counts[kind.split(" [")[0]] += 1
    assert cut > 10
    shares = {name: count / 1200 for name, count in counts.items()}
    # 0.2 each, one in eight of the unrelated being the pair itself.
    assert shares == pytest.approx(
        {"as it was": 0.425, "unrelated": 0.175, "equal": 0.2, "exchanged": 0.2}, abs=0.035
    )


def test_rows_without_a_second_text_keep_what_they_have(pairing):
    batch, texts = pairs_of(pairing, [(3, 0), (2, 4), (5, 0)], width=13)
    change = noise.PairNoise(pairing, share=1.0)
    for step in range(20):
        after = change(batch, tf.constant([0, step], tf.int64))
        for name in after:
            np.testing.assert_array_equal(after[name][0], batch[name][0])
            np.testing.assert_array_equal(after[name][2], batch[name][2])
        assert read_pair(pairing, after, 1)[0] in texts[1]


def test_other_pairs_follow_from_the_seed_and_are_not_those_of_other_tokens(tokenizer):
    batch, _ = pairs_of(tokenizer, [(1, 1)] * 25, width=5)  # twenty-five pairs, forty times
    batch = {name: tf.repeat(value, 40, axis=0) for name, value in batch.items()}
    change = noise.PairNoise(tokenizer, share=0.5)
    first, again, other = (change(batch, tf.constant([5, k], tf.int64)) for k in (0, 0, 1))
    tf.nest.map_structure(np.testing.assert_array_equal, first, again)
    assert (first["input_ids"].numpy() != other["input_ids"].numpy()).any()
    # The two kinds of noise choose their examples independently under one seed.
    tokens, _ = changed(tokenizer, batch, share=0.5)
    pairs, words = (
        (ids != batch["input_ids"]).numpy().any(axis=1) for ids in (first["input_ids"], tokens)
    )
    assert (pairs & words).mean() == pytest.approx(pairs.mean() * words.mean(), abs=0.03)
    same = noise.PairNoise(tokenizer, share=0.0)(batch, tf.constant([1, 0], tf.int64))
    tf.nest.map_structure(np.testing.assert_array_equal, same, batch)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (noise.TokenNoise, {"share": -0.1}),
        (noise.TokenNoise, {"share": 1.1}),
        (noise.TokenNoise, {"highest_rate": 0.0}),
        (noise.TokenNoise, {"highest_rate": 1.5}),
        (noise.PairNoise, {"share": 1.5}),
    ],
)
def test_values_out_of_range_are_refused(tokenizer, make, options):
    with pytest.raises(errors.ConfigError, match=next(iter(options))):
        make(tokenizer, **options)


def test_pieces_are_cut_into_the_likeliest_two_while_the_row_has_room():
    tokenizer = unigrams.unigram()
    halves = tokenizer.halves
    assert halves is not None
    scores, vocab = tokenizer.scores, tokenizer.vocab
    for index, piece in enumerate(vocab):  # the formula, without tables
        ways = [
            (scores[i] + scores[j], i, j)
            for i, first in enumerate(vocab)
            for j, second in enumerate(vocab)
            if first + second == piece and index not in tokenizer.special_ids
        ]
        best = max(ways)[0] if ways else None
        first, second = halves[index]
        assert (first < 0) == (best is None)
        if best is not None:
            assert scores[first] + scores[second] == best
            assert vocab[first] + vocab[second] == piece
    cuttable = np.flatnonzero(halves[:, 0] >= 0)
    whole = np.setdiff1d(np.arange(tokenizer.vocab_size), [*cuttable, *tokenizer.special_ids])
    batch = toys.token_rows(tokenizer, (2, 9, 400, 600, 1000), ids=[*cuttable, *whole[:20]])
    change = tf.function(noise.PieceNoise(tokenizer, share=1.0))
    after = change(batch, tf.constant([5, 1], tf.int64))
    cut = 0
    for row in range(5):
        before = batch["input_ids"].numpy()[row][batch["attention_mask"].numpy()[row] > 0]
        mask = after["attention_mask"].numpy()[row]
        ids = after["input_ids"].numpy()[row]
        assert (np.diff(mask) <= 0).all() and (ids[mask == 0] == tokenizer.pad_id).all()
        assert [vocab[i] for i in ids[mask > 0]] != [] and ids[mask > 0][-1] == before[-1]
        text = "".join(vocab[index] for index in before)
        assert "".join(vocab[index] for index in ids[mask > 0]) == text
        cut += int(mask.sum()) - len(before)
    assert after["attention_mask"].numpy()[4].sum() == 1002  # had no room
    assert cut > 30
    again = change(batch, tf.constant([5, 2], tf.int64))["input_ids"].numpy()
    assert (again != after["input_ids"].numpy()).any()
    rows = toys.token_rows(tokenizer, (300,) * 200 + (1200,), ids=[*cuttable])
    after = change(rows, tf.constant([5, 1], tf.int64))
    rates = after["attention_mask"].numpy()[:200].sum(axis=1) / 300 - 1
    assert rates.mean() == pytest.approx(noise.HIGHEST_RATE / 2, abs=0.03)
    same = noise.PieceNoise(tokenizer, share=0.0)(batch, tf.constant([5, 1], tf.int64))
    tf.nest.map_structure(np.testing.assert_array_equal, dict(same), dict(batch))


def test_of_several_ways_the_likeliest_counts_and_the_examples_are_drawn_by_themselves():
    scored = {"a": -4.0, "b": -5.0, "c": -6.0, "ab": -2.0, "bc": -1.0, "abc": -3.0}
    special = [(token, 0.0) for token in unigram.SPECIAL_TOKENS]
    tokenizer = unigram.Unigram([*special, *scored.items()], unigrams.charsmap())
    named = {p: tokenizer.halves[i].tolist() for i, p in enumerate(tokenizer.vocab)}
    ids = {piece: index for index, piece in enumerate(tokenizer.vocab)}
    assert named["abc"] == [ids["a"], ids["bc"]]  # -5 against -8
    assert named["ab"] == [ids["a"], ids["b"]] and named["a"] == named["<s>"] == [-1, -1]
    rows = toys.token_rows(tokenizer, (200,) * 200 + (800,), ids=[ids["abc"], ids["bc"]])
    seed = tf.constant([5, 1], tf.int64)
    pieces, tokens = (
        kind(tokenizer, share=0.5)(rows, seed) for kind in (noise.PieceNoise, noise.TokenNoise)
    )
    cut = pieces["attention_mask"].numpy()[:200].sum(axis=1) > 202
    replaced = (tokens["input_ids"].numpy() != rows["input_ids"].numpy())[:200].any(axis=1)
    assert 0.3 < (cut == replaced).mean() < 0.7
