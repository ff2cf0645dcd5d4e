"""Batches from shards: every example once, the same from any step, damage found."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfdistill import errors
from tfdistill.data import shard_files, shards, streaming, vocab
from tfdistill.io import files
from tfdistill.tokenization.reading import read_tokenizer


def make(folder, tokenizer, *, documents=90, **options):
    random = np.random.default_rng(5)
    words = np.array([w for w in tokenizer.vocab[5:] if w.isalpha()])
    lines = [
        " ".join(random.choice(words, size=random.integers(1, 30))) + "." for _ in range(documents)
    ]
    path = folder / "a.txt"
    path.write_text("\n\n".join(lines), encoding="utf-8")
    options = {"max_length": 16, "shard_bytes": 500, **options}
    return shards.prepare_corpus(path, tokenizer, folder / "corpus", **options)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make(folder, tokenizer)
    return folder / "corpus"


@pytest.fixture
def fresh(tokenizer, tmp_path):
    make(tmp_path, tokenizer, documents=12)
    return tmp_path / "corpus"


def rows(batches):
    """The examples of some batches without padding."""
    return [
        tuple(ids[mask == 1].tolist())
        for batch in batches
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def in_order(folder, **options):
    plain = shards.ShardedBatches(folder, 1, shuffle=False, bucketing=False, **options)
    return rows(plain.batches())


@pytest.mark.slow
@pytest.mark.parametrize("bucketing", [False, True])
@pytest.mark.parametrize("shards_at_once", [1, 3, 99])
def test_an_epoch_is_every_example_once(folder, bucketing, shards_at_once):
    batches = shards.ShardedBatches(
        folder, 7, 2, bucketing=bucketing, window=3, shards_at_once=shards_at_once
    )
    first, second = (list(batches.batches(epoch)) for epoch in (0, 1))
    expected = sorted(in_order(folder))
    assert len(first) == len(second) == batches.steps_per_epoch
    assert sorted(rows(first)) == sorted(rows(second)) == expected
    assert rows(first) != rows(second)
    assert batches.num_examples == len(expected)
    sizes = [len(batch["input_ids"]) for batch in first]
    assert sorted(sizes)[1:] == [7] * (len(sizes) - 1)  # one may be smaller


def test_buckets_hold_examples_of_like_length(folder):
    def padding(**options):
        batches = list(shards.ShardedBatches(folder, 8, **options).batches())
        real = sum(batch["attention_mask"].sum() for batch in batches)
        return 1 - real / sum(batch["input_ids"].size for batch in batches)

    assert padding(window=100) < 0.5 * padding(bucketing=False)


def test_a_batch_is_padded_at_its_end_and_fits_its_longest(folder, tokenizer):
    for batch in shards.ShardedBatches(folder, 5, bucketing=False).batches():
        lengths = batch["attention_mask"].sum(axis=1)
        assert batch["input_ids"].shape == (len(lengths), lengths.max())
        expected = np.arange(lengths.max()) < lengths[:, None]
        np.testing.assert_array_equal(batch["attention_mask"], expected)
        assert (batch["input_ids"][~expected] == tokenizer.pad_id).all()
        assert all(array.dtype == np.int32 for array in batch.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"window": 4}, pytest.param({"bucketing": False}, marks=pytest.mark.thorough)]
)
def test_a_stream_goes_on_from_any_step(folder, options):
    batches = shards.ShardedBatches(folder, 6, 1, shards_at_once=2, **options)
    per_epoch = batches.steps_per_epoch
    whole = [batch for epoch in (0, 1) for batch in batches.batches(epoch)]
    for epoch in (0, 1):
        for step in (0, 1, 4, 7, per_epoch - 1, per_epoch):
            rest = list(batches.batches(epoch, step))
            expected = whole[epoch * per_epoch + step : (epoch + 1) * per_epoch]
            assert len(rest) == len(expected)
            tf.nest.map_structure(np.testing.assert_array_equal, expected, rest)
    start = per_epoch + 3
    stream = batches.dataset(epochs=2, start_step=start)
    assert int(stream.cardinality()) == len(whole) - start
    streamed = [tf.nest.map_structure(lambda x: x.numpy(), batch) for batch in stream]
    tf.nest.map_structure(np.testing.assert_array_equal, whole[start:], streamed)


def test_resuming_reads_only_the_shards_that_are_still_needed(folder, monkeypatch):
    read = []
    original = shard_files.read_shard
    monkeypatch.setattr(
        shard_files, "read_shard", lambda *a, **o: (read.append(a[0].file), original(*a, **o))[1]
    )
    batches = shards.ShardedBatches(folder, 4, shards_at_once=1, window=2)
    list(batches.batches(0, batches.steps_per_epoch - 1))
    assert 1 <= len(read) <= 3
    assert len(batches.corpus.shards) > 6


def test_the_seed_decides_the_order(folder):
    first, again, other = (
        rows(shards.ShardedBatches(folder, 5, seed).batches()) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_held_out_examples_are_the_end_of_each_shard_and_never_trained_on(folder):
    parts = {
        part: shards.ShardedBatches(
            folder, 1, shuffle=False, bucketing=False, held_out=0.2, part=part
        )
        for part in ("train", "held_out")
    }
    train, held_out = (rows(part.batches()) for part in parts.values())
    corpus = parts["train"].corpus
    expected_train, expected_held_out, everything = [], [], iter(in_order(folder))
    for shard in corpus.shards.values():
        members = [next(everything) for _ in range(shard.num_examples)]
        apart = -(-shard.num_examples // 5)
        expected_train += members[: len(members) - apart]
        expected_held_out += members[len(members) - apart :]
    assert train == expected_train
    assert held_out == expected_held_out
    assert parts["held_out"].num_examples == len(held_out)
    some = shards.ShardedBatches(folder, 4, shuffle=False, held_out=0.2, part="held_out", limit=6)
    assert (some.num_examples, some.steps_per_epoch) == (6, 2)
    assert sorted(rows(some.batches())) == sorted(held_out[:6])


def test_labels_of_pairs_come_with_the_features(tokenizer, tmp_path):
    make(tmp_path, tokenizer, next_sentence=True, shard_bytes=2000)
    batches = shards.ShardedBatches(tmp_path / "corpus", 4, shuffle=False)
    assert batches.next_sentence
    first = next(iter(batches.dataset()))
    assert first["nsp_labels"].dtype == tf.int32
    assert first["nsp_labels"].shape == first["input_ids"].shape[:1]
    ends = np.array([row.index(tokenizer.sep_id) for row in first["input_ids"].numpy().tolist()])
    types = first["token_type_ids"].numpy()
    np.testing.assert_array_equal((types == 0).argmin(axis=1), ends + 1)


def test_tokens_are_counted_over_all_shards(folder, tokenizer):
    counts = shards.token_counts(folder)
    expected = np.zeros(tokenizer.vocab_size, int)
    for row in in_order(folder):
        for token in row:
            expected[token] += 1
    np.testing.assert_array_equal(counts, expected)


def shard_path(folder):
    corpus = shard_files.read_manifest(folder)
    return folder / max(corpus.shards.values(), key=lambda s: s.num_examples).file


@pytest.mark.parametrize("cut", [1, 9, 200])
def test_a_truncated_shard_is_found_before_training(fresh, cut):
    path = shard_path(fresh)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(errors.DataError, match=rf"{path.name}.*bytes instead of.*--resume"):
        shards.ShardedBatches(fresh, 4)


def test_a_changed_byte_is_found_by_the_checksum_and_while_reading(fresh):
    path = shard_path(fresh)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    batches = shards.ShardedBatches(fresh, 4)
    with pytest.raises(errors.DataError, match=rf"{path.name}.*another checksum"):
        shards.check_shards(fresh)
    with pytest.raises(errors.DataError, match=rf"{path.name}.*damaged or cut off"):
        list(batches.batches())
    with pytest.raises(tf.errors.OpError, match=path.name):
        list(batches.dataset())


def edit_manifest(folder, change):
    path = folder / "corpus.json"
    value = json.loads(path.read_text())
    change(value)
    files.atomic_write_json(path, value)


def edit_shard(folder, path, change):
    """Changes the entry of a shard in the manifest."""

    def of_shard(value):
        for shard in value["shards"].values():
            if shard["file"] == path.name:
                change(shard)

    edit_manifest(folder, of_shard)


def test_a_missing_record_or_shard_and_other_records_are_found(fresh):
    path = shard_path(fresh)
    whole = path.read_bytes()
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"not an example")
    edit_shard(fresh, path, lambda shard: shard.update(size_bytes=path.stat().st_size))
    with pytest.raises(errors.DataError, match=path.name):
        list(shards.ShardedBatches(fresh, 4).batches())
    path.write_bytes(whole)
    edit_shard(fresh, path, lambda shard: shard.update(size_bytes=len(whole), num_examples=99))
    with pytest.raises(errors.DataError):
        list(shards.ShardedBatches(fresh, 4).batches())
    path.unlink()
    with pytest.raises(errors.DataError, match=rf"{path.name}.*received no file"):
        shards.ShardedBatches(fresh, 4)


def test_a_model_with_another_vocabulary_is_refused(fresh, tokenizer, tmp_path):
    assert shards.ShardedBatches(fresh, 4, tokenizer=tokenizer).num_examples
    tokens = [*tokenizer.vocab]
    tokens[9] = "other"
    vocab.write_vocab(tokens, tmp_path / "other.txt")
    other = read_tokenizer(tmp_path / "other.txt")
    message = r"model vocabulary, id 9 .*as in the corpus's, received 'other'"
    with pytest.raises(errors.VocabularyError, match=message):
        shards.ShardedBatches(fresh, 4, tokenizer=other)
    cased = read_tokenizer(tokenizer.vocab_file, lower_case=False)
    with pytest.raises(errors.VocabularyError):
        shards.ShardedBatches(fresh, 4, tokenizer=cased)
    vocab.write_vocab(tokens, fresh / "vocab.txt")
    with pytest.raises(errors.VocabularyError):
        shards.ShardedBatches(fresh, 4)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format_version", 9, "format_version: expected 1, received 9"),
        ("settings", {}, r"corpus\.json"),
        ("settings", [], r"corpus\.json"),
        ("num_shards", None, r"corpus\.json"),
        ("shards", {"0": {"file": 3}}, r"corpus\.json"),
    ],
)
def test_a_folder_without_or_with_a_strange_manifest_is_refused(
    fresh, tmp_path, key, value, message
):
    edit_manifest(fresh, lambda manifest: manifest.update({key: value}))
    with pytest.raises(errors.DataError, match=message):
        shards.ShardedBatches(fresh, 4)
    (fresh / "corpus.json").write_text("{")
    broken = r"corpus\.json, line 1: expected a JSON object.*Prepare"
    with pytest.raises(errors.DataError, match=broken):
        shards.ShardedBatches(fresh, 4)
    with pytest.raises(errors.DataError, match=r"corpus\.json.*data prepare"):
        shards.ShardedBatches(tmp_path / "nowhere", 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"window": 0}, "window"),
        ({"shards_at_once": 0}, "shards_at_once"),
        ({"held_out": 1.0}, "held_out"),
        ({"part": "dev"}, "part: expected train or held_out"),
        ({"limit": 5}, "shuffle=False"),
        ({"limit": 0, "shuffle": False}, "limit"),
        ({"part": "held_out"}, "at least one example"),
    ],
)
def test_unusable_options_are_refused(folder, options, message):
    with pytest.raises(errors.TfdistillError, match=message):
        shards.ShardedBatches(folder, **options)


def test_a_step_beyond_the_end_is_refused(folder):
    batches = shards.ShardedBatches(folder, 8)
    with pytest.raises(errors.ConfigError):
        batches.dataset(epochs=1, start_step=batches.steps_per_epoch + 1)


def rewrite(folder, number, feature, values):
    """Puts values into a record of the first shard, and its new size into the manifest."""
    path = min(folder.glob("part-*.tfrecord"))
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[number])
    example.features.feature[feature].int64_list.value[:] = values
    records[number] = example.SerializeToString()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    edit_shard(folder, path, lambda shard: shard.update(size_bytes=path.stat().st_size))


@pytest.mark.parametrize(
    ("feature", "values", "says"),
    [
        ("input_ids", [2, -1, 3], "the id -1"),
        ("input_ids", [2, 10**6, 3], "the id 1000000"),
        ("input_ids", [2, 2**32 + 5, 3], f"the id {2**32 + 5}"),  # 5 as int32
        ("input_ids", [], "the first_length"),
        ("input_ids", [2] * 17, "at most 16 tokens, received 17"),
        ("first_length", [-4], "the first_length -4"),
    ],
)
def test_ids_that_are_no_tokens_never_train(fresh, feature, values, says):
    rewrite(fresh, 1, feature, values)
    with pytest.raises(errors.DataError, match=says), streaming.raising_faults():
        list(shards.ShardedBatches(fresh).dataset())  # inside TensorFlow
