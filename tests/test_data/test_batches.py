import dataclasses
import itertools

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data.batches import Batches, EncodedExamples, encode_examples
from tfdistill.tokenization.reading import read_tokenizer


def encoded_of(lengths, *, labels=True, weights=False, pad_id=0):
    """Example i holds the ids 100 * i + 1, 100 * i + 2, ...; the second half has type 1."""
    lengths = np.asarray(lengths)
    ids = np.concatenate([100 * i + 1 + np.arange(n) for i, n in enumerate(lengths)])
    types = np.concatenate([np.arange(n) >= (n + 1) // 2 for n in lengths])
    count = len(lengths)
    return EncodedExamples(
        ids=ids.astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        types=types.astype(np.uint8),
        labels=np.arange(count, dtype=np.int32) if labels else None,
        weights=np.linspace(0, 1, count, dtype=np.float32) if weights else None,
        pad_id=pad_id,
    )


@pytest.fixture
def examples(rng):
    return encoded_of(rng.integers(2, 40, size=203))


def elements(batches, **options):
    return list(batches.dataset(**options).as_numpy_iterator())


def flat(value):
    """Leaves of a batch as lists, to compare streams."""
    features, *rest = value if isinstance(value, tuple) else (value,)
    return [features[name].tolist() for name in sorted(features)] + [r.tolist() for r in rest]


OPTIONS = [
    {},
    {"token_budget": 120},
    {"shuffle": False},
    {"bucketing": False},
    {"bucketing": False, "token_budget": 120},
    {"bucketing": False, "shuffle": False, "max_length": 50},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_every_example_comes_once_an_epoch_in_batches_of_the_size_and_budget(examples, options):
    batches = Batches(examples, batch_size=8, **options)
    for epoch in range(4):
        plan = batches.plan(epoch)
        assert sorted(np.concatenate(plan).tolist()) == list(range(203))
        assert len(plan) == batches.steps_per_epoch
    seen = elements(batches, epochs=2)
    labels = np.concatenate([labels for _, labels in seen])
    assert sorted(labels.tolist()) == sorted([*range(203), *range(203)])
    shapes = [features["input_ids"].shape for features, _ in seen]
    assert max(rows for rows, _ in shapes) <= 8
    assert max(rows * width for rows, width in shapes) <= options.get("token_budget", 10**9)


def test_the_budget_is_used_up_before_a_batch_is_closed(examples):
    batches = Batches(examples, batch_size=8, token_budget=120, shuffle=False)
    plan, lengths = batches.plan(), examples.lengths
    for batch, following in itertools.pairwise(plan):
        more = (len(batch) + 1) * lengths[following[0]]
        assert len(batch) == 8 or more > 120
    assert 1 < len(plan[-1]) < 8  # the budget, not the size, closes batches of long examples


def padded_tokens(batches):
    """The tokens of an epoch's arrays, padding included."""
    return sum(batches.batch(indices)[0]["input_ids"].size for indices in batches.plan())


def test_a_batch_holds_examples_of_like_length(examples):
    batches = Batches(examples, batch_size=8)
    ranges = sorted(
        (int(min(n)), int(max(n))) for n in (examples.lengths[b] for b in batches.plan(1))
    )
    assert all(low >= high for (_, high), (low, _) in itertools.pairwise(ranges))
    assert padded_tokens(batches) < 1.1 * examples.num_tokens
    unsorted = Batches(examples, batch_size=8, bucketing=False)
    assert padded_tokens(unsorted) == 203 * examples.lengths.max()


def test_the_plan_depends_on_seed_and_epoch_alone(examples):
    def plan(seed, epoch):
        return [batch.tolist() for batch in Batches(examples, batch_size=8, seed=seed).plan(epoch)]

    first = Batches(examples, batch_size=8, seed=3)
    first.plan(0), first.plan(7)
    assert [batch.tolist() for batch in first.plan(1)] == plan(3, 1)
    assert plan(3, 1) != plan(3, 2)
    assert plan(3, 1) != plan(4, 1)
    # Epochs differ in who shares a batch and in the order of batches.
    batches = Batches(examples, batch_size=8)
    one, two = ({frozenset(b.tolist()) for b in batches.plan(epoch)} for epoch in (0, 1))
    assert len(one & two) < len(one) / 2
    lengths = [int(examples.lengths[b].max()) for b in batches.plan(0)]
    assert lengths != sorted(lengths)


def test_without_shuffle_every_epoch_is_the_same_and_sorted_by_length(examples):
    batches = Batches(examples, batch_size=8, shuffle=False)
    order = np.concatenate(batches.plan(0))
    assert order.tolist() == np.concatenate(batches.plan(5)).tolist()
    assert (np.diff(examples.lengths[order]) >= 0).all()
    straight = Batches(examples, batch_size=8, shuffle=False, bucketing=False)
    assert np.concatenate(straight.plan()).tolist() == list(range(203))


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_a_resumed_stream_goes_on_with_the_same_batches(examples, options):
    batches = Batches(examples, batch_size=16, **options)
    whole = [flat(value) for value in elements(batches, epochs=3)]
    steps = batches.steps_per_epoch
    assert len(whole) == 3 * steps
    for start in (1, steps - 1, steps, steps + 1, 3 * steps - 1, 3 * steps):
        again = Batches(examples, batch_size=16, **options)
        rest = again.dataset(epochs=3, start_step=start)
        assert rest.cardinality() == 3 * steps - start
        assert [flat(value) for value in rest.as_numpy_iterator()] == whole[start:]


def test_a_batch_is_padded_to_its_longest_example_or_without_bucketing_to_max_length():
    encoded = encoded_of([3, 2, 4], pad_id=9)
    (features, labels), *none = elements(Batches(encoded, batch_size=3, shuffle=False))
    assert not none
    assert features["input_ids"].tolist() == [[101, 102, 9, 9], [1, 2, 3, 9], [201, 202, 203, 204]]
    assert features["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert features["token_type_ids"].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert labels.tolist() == [1, 0, 2]
    assert {array.dtype for array in (*features.values(), labels)} == {np.dtype(np.int32)}
    batches = Batches(encoded, batch_size=2, bucketing=False, max_length=6)
    assert [f["input_ids"].shape for f, _ in elements(batches)] == [(2, 6), (1, 6)]
    specs = batches.dataset().element_spec[0]
    assert specs["input_ids"].shape.as_list() == [None, 6]
    batches = Batches(encoded, batch_size=2, bucketing=False)
    assert [f["input_ids"].shape for f, _ in elements(batches)] == [(2, 4), (1, 4)]


def test_weights_indices_and_extra_arrays_follow_their_examples(examples):
    count = len(examples)
    encoded = dataclasses.replace(examples, weights=np.arange(count, dtype=np.float32) / 7)
    logits = np.stack([np.arange(count), -np.arange(count)], axis=1).astype(np.float32)
    batches = Batches(encoded, batch_size=8, with_index=True, extra={"teacher_logits": logits})
    for features, labels, weights in elements(batches):
        index = features["example_index"]
        assert index.dtype == np.int32
        assert index.tolist() == labels.tolist()
        np.testing.assert_array_equal(features["teacher_logits"], logits[index])
        np.testing.assert_array_equal(weights, encoded.weights[index])
        for row, example in enumerate(index):
            real = features["input_ids"][row][features["attention_mask"][row] == 1]
            assert real.tolist() == encoded.row(example).tolist()


def test_labels_may_be_numbers_or_absent():
    encoded = dataclasses.replace(encoded_of([3, 2]), labels=np.array([0.5, 2.5], np.float32))
    ((_, labels),) = elements(Batches(encoded, batch_size=2, shuffle=False))
    assert (labels.dtype, labels.tolist()) == (np.float32, [2.5, 0.5])
    (features,) = elements(Batches(encoded_of([3, 2], labels=False), batch_size=2))
    assert sorted(features) == ["attention_mask", "input_ids", "token_type_ids"]


def test_dropped_examples_differ_from_epoch_to_epoch_and_batches_are_full(examples):
    batches = Batches(examples, batch_size=8, drop_remainder=True)
    assert (batches.steps_per_epoch, batches.num_examples) == (25, 200)
    dropped = set()
    for epoch in range(10):
        plan = batches.plan(epoch)
        assert [len(batch) for batch in plan] == [8] * 25
        seen = np.concatenate(plan)
        assert len(set(seen.tolist())) == 200
        dropped |= set(range(203)) - set(seen.tolist())
    assert len(dropped) > 15


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 0}, errors.ConfigError, "batch_size: expected at least 1, received 0"),
        ({"token_budget": 4}, errors.DataError, "token_budget: expected at least 5, .* received 4"),
        ({"max_length": 4}, errors.DataError, "max_length = 4 tokens, received 5 in example 2"),
        ({"token_budget": 6, "bucketing": False, "max_length": 7}, errors.DataError, "at least 7"),
        ({"token_budget": 64, "drop_remainder": True}, errors.ConfigError, "budget, received both"),
        ({"drop_remainder": True}, errors.DataError, "at least batch_size = 32"),
        ({"extra": {"x": np.zeros((2, 1))}}, errors.ShapeError, r"'x': expected 3 rows, received"),
        ({"extra": {"input_ids": np.zeros(3)}}, errors.ConfigError, "a new name"),
    ],
)
def test_options_that_cannot_be_met_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Batches(encoded_of([2, 3, 5]), **options)


def test_examples_and_starts_that_make_no_stream_are_refused():
    empty = EncodedExamples(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.uint8))
    with pytest.raises(errors.DataError, match="at least one example, received none"):
        Batches(empty)
    with pytest.raises(errors.ConfigError, match="sample weights: expected labels"):
        Batches(encoded_of([2, 3], weights=True, labels=False))
    for epochs, start in ((1, 2), (1, -1), (-1, 0)):
        with pytest.raises(errors.ConfigError, match="start_step: expected 0 to"):
            Batches(encoded_of([2, 3])).dataset(epochs=epochs, start_step=start)
    good = encoded_of([2, 3])
    for fields in (
        {"offsets": np.array([0, 2, 4])},
        {"offsets": np.array([0, 0, 5])},
        {"types": good.types[1:]},
        {"labels": np.zeros(3, np.int32)},
        {"weights": np.zeros((2, 1), np.float32)},
    ):
        with pytest.raises(errors.ShapeError, match="encoded examples"):
            dataclasses.replace(good, **fields)


def test_selected_examples_keep_all_that_belongs_to_them():
    encoded = encoded_of([2, 4, 3], weights=True)
    chosen = encoded.select([2, 1])
    assert [chosen.row(i).tolist() for i in range(2)] == [[201, 202, 203], [101, 102, 103, 104]]
    assert chosen.row_types(0).tolist() == [0, 0, 1]
    assert (chosen.labels.tolist(), chosen.weights.tolist()) == ([2, 1], [1.0, 0.5])


def test_examples_are_encoded_with_their_pairs_labels_and_weights(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    spec = tasks.TaskSpec("p", "a", "l", "b", labels=("no", "yes"))
    examples = tasks.Examples(
        spec, ["good", "the film"], ["bad", "story"], np.array([1, 0], np.int32)
    )
    encoded = encode_examples(examples, tokenizer, 5, weights=[0.5, 2])
    assert encoded.row(0).tolist() == tokenizer.encode("good", "bad", 5)
    assert encoded.row(1).tolist() == tokenizer.encode("the film", "story", 5)
    assert encoded.row_types(0).tolist() == [0, 0, 0, 1, 1]
    assert encoded.labels.tolist() == [1, 0]
    assert (encoded.weights.dtype, encoded.weights.tolist()) == (np.float32, [0.5, 2.0])


@pytest.mark.slow
@pytest.mark.shared_data
def test_bucketing_computes_a_quarter_of_the_tokens_on_sst2(shared_data):
    folder = shared_data / "glue" / "SST-2"
    tokenizer = read_tokenizer(shared_data / "vocab" / "bert-base-uncased-vocab.txt")
    examples = tasks.load_examples(tasks.task("sst2"), folder, "train")
    encoded = encode_examples(examples, tokenizer, 64)
    assert 13 < encoded.lengths.mean() < 14
    batches = Batches(encoded, batch_size=32)
    assert padded_tokens(batches) < 1.01 * encoded.num_tokens
    assert 4 * padded_tokens(batches) < 64 * len(encoded)
