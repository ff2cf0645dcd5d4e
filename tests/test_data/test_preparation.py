"""Preparing a corpus: the same files whatever happens on the way."""

import dataclasses
import pathlib
import tracemalloc

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.data import preparation, shard_files, shards, vocab
from tfdistill.io import ledger, locks
from tfdistill.tokenization.reading import read_tokenizer


def contents(folder):
    held = [path for path in pathlib.Path(folder).iterdir() if path.name != ledger.MARKER]
    return {path.name: path.read_bytes() for path in held if path.name != locks.LOCK}


def rows(folder):
    corpus = shards.ShardedBatches(folder, 1, shuffle=False, bucketing=False)
    read = list(corpus.batches())
    return [batch["input_ids"][0].tolist() for batch in read], read


def test_all_text_is_kept_in_order_without_crossing_documents(prepare, tokenizer, text, tmp_path):
    corpus = prepare(short_sequence_probability=0.0)
    examples, batches = rows(tmp_path / "out")
    assert corpus.num_shards > 5
    assert corpus.num_examples == len(examples)
    assert corpus.num_tokens == sum(map(len, examples))
    assert max(map(len, examples)) == 24
    special = (tokenizer.cls_id, tokenizer.sep_id)
    bodies = [[token for token in row if token not in special] for row in examples]
    documents = text.read_text().split("\n\n")
    expected = [tokenizer.encode(d, max_length=10**6)[1:-1] for d in documents]
    assert [t for body in bodies for t in body] == [t for d in expected for t in d]
    ends = set(np.cumsum([len(document) for document in expected]).tolist())
    assert ends <= set(np.cumsum([len(body) for body in bodies]).tolist())
    assert all(row[0] == special[0] and row[-1] == special[1] for row in examples)
    assert not any(batch["token_type_ids"].any() for batch in batches)


def test_short_sequences_are_drawn(prepare, tmp_path):
    prepare("long", short_sequence_probability=0.0)
    prepare("short", short_sequence_probability=1.0)
    sizes = [np.mean([len(row) for row in rows(tmp_path / name)[0]]) for name in ("long", "short")]
    assert sizes[1] < 0.8 * sizes[0]


def test_next_sentence_pairs_have_labels_of_both_kinds(prepare, tmp_path):
    prepare(next_sentence=True, shard_bytes=600)
    _, batches = rows(tmp_path / "out")
    labels = [int(batch["nsp_labels"][0]) for batch in batches]
    assert set(labels) == {0, 1}
    for batch in batches:
        types = batch["token_type_ids"][0]
        assert types.any() and not types[0]


def test_a_preparation_that_was_stopped_goes_on_to_the_same_files(prepare, tmp_path):
    prepare("whole")

    def stop(corpus):
        if len(corpus.shards) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare("stopped", progress=stop)
    half = shard_files.read_manifest(tmp_path / "stopped")
    assert len(half.shards) == 3 and not half.complete
    with pytest.raises(errors.DataError, match=r"unfinished|finished shards, received 3"):
        shards.ShardedBatches(tmp_path / "stopped", 4)
    (tmp_path / "stopped" / ".part-00003-x.tfrecord").write_bytes(
        b"half a shard of a killed process"
    )
    begun = []
    prepare("stopped", resume=True, progress=lambda c: begun.append(len(c.shards)))
    assert begun[0] == 4  # what was there is not done again
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    done = []
    prepare("stopped", resume=True, progress=done.append)
    assert done == []


def test_a_text_that_changed_in_its_middle_is_prepared_anew(
    prepare, text, tmp_path, written, monkeypatch
):
    monkeypatch.setattr(preparation, "_FINGERPRINTED", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(text.read_bytes())
    prepare("out", path)
    content = path.read_text()
    middle = content.index(" film ", len(content) // 2)
    path.write_text(f"{content[:middle]} good {content[middle + 6 :]}")
    written.clear()
    prepare("out", path, resume=True)
    assert len(written) == 1
    prepare("anew", path)
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")


def test_where_no_text_was_noted_none_is_read(prepare, text, tmp_path, monkeypatch):
    prepare()
    record = shard_files.read_manifest(tmp_path / "out")
    for number, shard in record.shards.items():
        record.shards[number] = dataclasses.replace(shard, text_sha256="")
    shard_files.write_manifest(record, tmp_path / "out")
    monkeypatch.setattr(preparation, "_text_of", None)
    prepare(resume=True)


def test_resuming_writes_damaged_and_missing_shards_again(prepare, tmp_path):
    prepare()
    before = contents(tmp_path / "out")
    names = sorted(name for name in before if name.endswith(".tfrecord"))
    damaged = bytearray(before[names[1]])
    damaged[len(damaged) // 2] ^= 4  # the size stays
    (tmp_path / "out" / names[1]).write_bytes(damaged)
    (tmp_path / "out" / names[4]).unlink()
    prepare(resume=True)
    assert contents(tmp_path / "out") == before


@pytest.mark.thorough
@pytest.mark.slow
def test_two_processes_write_the_same_files_as_one(prepare, tmp_path):
    prepare("one", next_sentence=True, shard_bytes=600)
    prepare("two", next_sentence=True, shard_bytes=600, workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(prepare, text, tmp_path):
    peaks = []
    for copies in (1, 6):
        path = tmp_path / f"{copies}.txt"
        path.write_text("\n\n".join([text.read_text()] * 30 * copies), encoding="utf-8")
        tracemalloc.start()
        prepare(str(copies), path=path, shard_bytes=50_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (tmp_path / "6.txt").stat().st_size > 450_000
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
def test_empty_and_gigantic_lines_and_no_documents_at_all(prepare, tokenizer, tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("\n\n \n" * 200 + "good " * 2000 + "\n\n\n" + "x" * 3000, encoding="utf-8")
    prepare(path=path)
    examples, _ = rows(tmp_path / "out")
    tokens = [token for row in examples for token in row[1:-1]]
    assert tokens.count(tokenizer.vocab.index("good")) == 2000
    assert set(tokens) == {tokenizer.vocab.index("good"), tokenizer.unk_id}
    path.write_text("\n \n" * 50)
    with pytest.raises(errors.DataError, match="corpus: expected words, received none"):
        prepare("none", path=path)
    with pytest.raises(errors.DataError, match="not there"):
        prepare("gone", path=tmp_path / "gone.txt")


def test_bytes_that_are_not_utf8_stop_or_are_dropped(prepare, tokenizer, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good\n" * 200 + b"bad \xfe\xff film\n" + b"good\n" * 200)
    with pytest.raises(errors.DataError, match=r"bad\.txt, line 201 \(byte 1004\)"):
        prepare("strict", path=path)
    prepare("lenient", path=path, on_invalid="replace")
    tokens = [token for row in rows(tmp_path / "lenient")[0] for token in row[1:-1]]
    words = [tokenizer.vocab[token] for token in tokens]
    assert words == ["good"] * 200 + ["bad", "film"] + ["good"] * 200


def test_an_earlier_corpus_is_neither_lost_nor_mixed(prepare, text, tokenizer, tmp_path):
    prepare()
    before = contents(tmp_path / "out")
    with pytest.raises(errors.OutputExistsError):
        prepare()
    with pytest.raises(errors.OutputExistsError, match="seed: expected 4 as asked for, received 3"):
        prepare(resume=True, seed=4)
    other = tmp_path / "a.txt"
    other.write_text(text.read_text() + " Good.")
    with pytest.raises(errors.OutputExistsError, match="sources"):
        prepare(resume=True, path=other)
    swapped = [*tokenizer.vocab]
    swapped[7], swapped[8] = swapped[8], swapped[7]
    vocab.write_vocab(swapped, tmp_path / "vocab.txt")
    with pytest.raises(errors.VocabularyError, match=r"id 7 .*expected 'it'|id 7"):
        prepare(resume=True, tokenizer=read_tokenizer(tmp_path / "vocab.txt"))
    assert contents(tmp_path / "out") == before
    prepare(overwrite=True, shard_bytes=10_000)
    assert len(contents(tmp_path / "out")) == 3  # no shard of the earlier one is left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 2}, "max_length"),
        ({"max_length": 4, "next_sentence": True}, "a token of each half"),
        ({"short_sequence_probability": 1.5}, "short_sequence_probability"),
        ({"on_invalid": "ignore"}, "on_invalid"),
        ({"workers": 0}, "workers"),
        ({"shard_bytes": 0}, "at least 1"),
    ],
)
def test_unusable_options_are_refused_before_anything_is_written(
    prepare, tmp_path, options, message
):
    with pytest.raises(errors.DataError, match=message):
        prepare(**options)
    assert not (tmp_path / "out").exists()


def test_a_shard_with_one_document_cannot_make_pairs(prepare, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("Good film. Bad story. " * 30)
    with pytest.raises(errors.DataError, match=r"one\.txt, bytes 0 to .*two documents or more"):
        prepare(path=path, next_sentence=True, shard_bytes=10_000)
