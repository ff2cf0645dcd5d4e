"""The augmented file: what it holds, what it depends on, how it goes on after a stop."""

import dataclasses
import json

import numpy as np
import pytest
import toys

from tfdistill import errors, models, tasks
from tfdistill.augmentation import CandidateFinder, augment_train, variants
from tfdistill.data import parallel
from tfdistill.data.vectors import WordVectors
from tfdistill.io import files
from tfdistill.tokenization.reading import read_tokenizer

OPTIONS = variants.AugmentOptions(copies=4, num_candidates=5, probability=0.5)
FILMS = tasks.TaskSpec("films", "text", "label", labels=("bad", "good"), label_values=("0", "1"))
WORDS = ("film", "story", "play", "good", "bad", "alarm", "set", "the", "is", "films", ".")


def texts(count, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, 7))) for _ in range(count)]


def examples(count=11, spec=FILMS, pairs=False):
    labels = np.random.default_rng(1).integers(0, 2, count).astype(np.int32)
    return tasks.Examples(spec, texts(count), texts(count, 9) if pairs else None, labels)


@pytest.fixture(scope="module")
def make_finder(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    config = toys.SHALLOW_STUDENT.replace(vocab_size=tokenizer.vocab_size, max_positions=40)
    model = toys.randomise(models.build_masked_lm(config), 0)
    vectors = WordVectors(
        ["films", "movies", "plays", "ham"], np.random.default_rng(2).random((4, 3))
    )

    def make(token_budget=500, count=OPTIONS.num_candidates):
        return CandidateFinder(
            model,
            tokenizer,
            vectors,
            num_candidates=count,
            stop_words=frozenset({"the", "is"}),
            token_budget=token_budget,
        )

    return make


@pytest.fixture(scope="module")
def finder(make_finder):
    return make_finder()


def rows(folder):
    return (folder / "train.tsv").read_text(encoding="utf-8").splitlines()


def test_the_file_holds_each_example_and_then_its_variants_with_its_label(finder, tmp_path):
    train = examples()
    done = augment_train(train, finder, OPTIONS, tmp_path / "out")
    expected = ["text\tlabel"]
    words = finder.find(train.texts)
    for index, text in enumerate(train.texts):
        forms = variants.augmented_pairs(index, [words[index]], OPTIONS)
        expected += [f"{form}\t{train.labels[index]}" for form in (text, *(f for _, f in forms))]
    assert rows(tmp_path / "out") == expected
    assert done.num_rows == len(expected) - 1 > 30
    assert (done.num_examples, done.num_augmented) == (11, done.num_rows - 11)
    assert done.file == tmp_path / "out" / "train.tsv"
    # What a variant says is not what the example said, and words do get exchanged for others.
    assert len({row.split("\t")[0] for row in expected}) > 25


def test_of_a_pair_the_other_text_stays_as_it_was(finder, tmp_path):
    spec = dataclasses.replace(FILMS, pair_column="other")
    train = examples(9, spec, pairs=True)
    augment_train(train, finder, OPTIONS, tmp_path)
    header, *lines = rows(tmp_path)
    assert header == "text\tother\tlabel"
    originals = set(zip(train.texts, train.pairs, strict=True))
    changed = {0: 0, 1: 0}
    for line in lines:
        first, second, _ = line.split("\t")
        if (first, second) in originals:
            continue
        left = any(first == text for text, _ in originals)
        right = any(second == text for _, text in originals)
        assert left != right
        changed[int(left)] += 1
    assert min(changed.values()) > 10
    read = tasks.load_examples(spec, tmp_path, "train")
    assert len(read) == len(lines)


@pytest.mark.parametrize("kind", ["cola", "stsb", "numbers", "multi_label", "separators"])
def test_labels_are_written_as_the_task_spells_them(kind, finder, tmp_path):
    spec = {
        "cola": tasks.task("cola"),  # its own files have no header
        "stsb": tasks.task("stsb"),
        "numbers": tasks.TaskSpec("n", "text", "label", labels=("9", "10")),
        "multi_label": tasks.TaskSpec(
            "m", "text", "label", labels=("x", "y", "z"), kind="multi_label", label_separator="|"
        ),
        "separators": tasks.TaskSpec(
            "s", "text", "label", labels=("x", 'y, "z"', "é"), kind="multi_label"
        ),
    }[kind]
    train = examples(5, spec, pairs=spec.pair_column is not None)
    if kind == "stsb":
        train = dataclasses.replace(train, labels=np.array([0.1, 3.8, 5, 1 / 3, 2.5], np.float32))
    if spec.kind == "multi_label":
        labels = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]], np.float32)
        train = dataclasses.replace(train, labels=labels)
    augment_train(train, finder, OPTIONS, tmp_path)
    read = tasks.load_examples(spec, tmp_path, "train")
    places = [read.texts.index(text) for text in train.texts]
    np.testing.assert_array_equal(read.labels[places], train.labels)
    assert len(read) > 8


def test_originals_can_be_left_out(finder, tmp_path):
    train = examples()
    without = dataclasses.replace(OPTIONS, keep_originals=False)
    augment_train(train, finder, OPTIONS, tmp_path / "with")
    done = augment_train(train, finder, without, tmp_path / "without")
    assert done.num_rows == done.num_augmented
    with_originals = rows(tmp_path / "with")
    for text, label in zip(train.texts, train.labels, strict=True):
        with_originals.remove(f"{text}\t{label}")
    assert rows(tmp_path / "without") == with_originals


@pytest.mark.parametrize("shard_size, token_budget", [(4, 1), (100, 10_000)])
def test_shards_and_batches_leave_no_trace(shard_size, token_budget, finder, make_finder, tmp_path):
    train = examples()
    augment_train(train, finder, OPTIONS, tmp_path / "a", shard_size=3)
    augment_train(train, make_finder(token_budget), OPTIONS, tmp_path / "b", shard_size=shard_size)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "a").glob("[!.]*")) == [
        *("augmentation.json", "train.tsv"),
    ]


class _Stop(Exception):
    pass


def stopped_after(finder, calls, monkeypatch):
    """Makes the finder stop the run when it is asked once more than `calls` times."""
    find = finder.find
    left = [calls]

    def once_more(texts):
        if not left[0]:
            raise _Stop
        left[0] -= 1
        return find(texts)

    monkeypatch.setattr(finder, "find", once_more)
    return finder


def test_a_run_that_was_stopped_goes_on_where_it_was(make_finder, finder, tmp_path, monkeypatch):
    train = examples()
    augment_train(train, finder, OPTIONS, tmp_path / "whole", shard_size=3)
    with pytest.raises(_Stop):
        augment_train(
            train,
            stopped_after(make_finder(), 2, monkeypatch),
            OPTIONS,
            tmp_path / "out",
            shard_size=3,
        )
    (parts,) = (tmp_path / "out").glob("parts-*")
    assert sorted(path.name for path in parts.iterdir()) == ["part-00000.tsv", "part-00001.tsv"]
    assert not (tmp_path / "out" / "train.tsv").exists()
    assert not json.loads((tmp_path / "out" / "augmentation.json").read_text())["complete"]
    # Two of four shards are left, also if another size is asked for now.
    last = stopped_after(make_finder(), 2, monkeypatch)
    done = augment_train(train, last, OPTIONS, tmp_path / "out", shard_size=7, resume=True)
    assert rows(tmp_path / "out") == rows(tmp_path / "whole")
    assert not parts.exists()
    # Done is done: nothing is asked any more.
    none = stopped_after(make_finder(), 0, monkeypatch)
    assert augment_train(train, none, OPTIONS, tmp_path / "out", resume=True) == done


@pytest.mark.parametrize("content", [None, "text\tlabel\n"])
def test_a_file_that_is_gone_or_changed_is_written_again(content, finder, tmp_path):
    done = augment_train(examples(), finder, OPTIONS, tmp_path)
    whole = done.file.read_text()
    done.file.unlink()
    if content is not None:
        done.file.write_text(content)
    assert augment_train(examples(), finder, OPTIONS, tmp_path, resume=True) == done
    assert done.file.read_text() == whole


DIRECT = ("--runner", "DirectRunner")
THREADS = (*DIRECT, "--direct_num_workers=2", "--direct_running_mode=multi_threading")


_on_workers = []  # train and finder, as a pipeline's workers find them


def load():
    return _on_workers[-1]


def test_a_pipeline_writes_the_same_file(finder, tmp_path):
    train = examples()
    augment_train(train, finder, OPTIONS, tmp_path / "here")
    options = {"shard_size": 2, "pipeline": THREADS, "load": load}
    augment_train(train, finder, OPTIONS, tmp_path / "there", **options)
    names = sorted(path.name for path in (tmp_path / "there").glob("[!.]*"))
    assert names == ["augmentation.json", "train.tsv"]
    assert rows(tmp_path / "there") == rows(tmp_path / "here")


def test_a_worker_with_other_inputs_is_an_error(finder, tmp_path, monkeypatch):
    train = examples()
    changed = dataclasses.replace(train, texts=["other", *train.texts[1:]])
    run = parallel.run_pipeline
    monkeypatch.setattr(
        parallel, "run_pipeline", lambda *a: run(*a[:3])
    )  # workers load for themselves
    options = {"pipeline": DIRECT, "load": load}
    _on_workers.append((changed, finder))
    with pytest.raises(errors.ConfigError, match=r"inputs of a worker.*examples_sha256"):
        augment_train(train, finder, OPTIONS, tmp_path / "out", **options)
    _on_workers.append((train, finder))
    augment_train(train, finder, OPTIONS, tmp_path / "out", resume=True, **options)
    with pytest.raises(errors.ConfigError, match="load: expected a function"):
        augment_train(train, finder, OPTIONS, tmp_path / "b", pipeline=DIRECT)


@pytest.mark.parametrize("change", ["label", "text", "seed", "copies"])
def test_other_inputs_or_options_are_not_gone_on_with(change, finder, tmp_path):
    train, options = examples(5), OPTIONS
    augment_train(train, finder, options, tmp_path)
    before = rows(tmp_path)
    if change == "label":
        train = dataclasses.replace(train, labels=1 - train.labels)
    elif change == "text":
        train = dataclasses.replace(train, texts=["other", *train.texts[1:]])
    else:
        options = dataclasses.replace(options, **{change: 7})
    named = {"label": "examples_sha256", "text": "examples_sha256"}.get(change, change)
    with pytest.raises(errors.ConfigError, match=rf"others: {named}"):
        augment_train(train, finder, options, tmp_path, resume=True)
    assert rows(tmp_path) == before
    augment_train(train, finder, options, tmp_path, overwrite=True)
    assert rows(tmp_path) != before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_training_set_that_is_no_augmentation_is_never_replaced(overwrite, finder, tmp_path):
    (tmp_path / "train.tsv").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match=r"other files: train\.tsv"):
        augment_train(examples(3), finder, OPTIONS, tmp_path, overwrite=overwrite)
    assert (tmp_path / "train.tsv").read_text() == "mine"


def test_a_broken_or_newer_manifest_is_refused(finder, tmp_path):
    augment_train(examples(3), finder, OPTIONS, tmp_path)
    path = tmp_path / "augmentation.json"
    files.atomic_write_json(path, {**json.loads(path.read_text()), "format_version": 2})
    with pytest.raises(errors.DataError, match="format_version: expected 1, received 2"):
        augment_train(examples(3), finder, OPTIONS, tmp_path, resume=True)
    path.write_text("{")
    with pytest.raises(errors.DataError, match="manifest of an augmentation"):
        augment_train(examples(3), finder, OPTIONS, tmp_path, resume=True)


def test_what_cannot_be_augmented_is_refused_before_anything_is_written(finder, tmp_path):
    train = examples(3)
    hidden = dataclasses.replace(train, labels=None)
    with pytest.raises(errors.DataError, match="Development and test sets are never augmented"):
        augment_train(hidden, finder, OPTIONS, tmp_path / "out")
    with pytest.raises(errors.DataError, match="at least one example"):
        augment_train(train.select([]), finder, OPTIONS, tmp_path / "out")
    spans = dataclasses.replace(train, spec=tasks.TaskSpec("s", "t", "l", kind="span"))
    with pytest.raises(errors.ConfigError, match=r"one cell of a table, received span"):
        augment_train(spans, finder, OPTIONS, tmp_path / "out")
    tabbed = dataclasses.replace(FILMS, labels=("a\tb", "c"), label_values=())
    with pytest.raises(errors.DataError, match="without tab"):
        augment_train(dataclasses.replace(train, spec=tabbed), finder, OPTIONS, tmp_path / "out")
    more = dataclasses.replace(OPTIONS, num_candidates=6)
    with pytest.raises(errors.ConfigError, match="num_candidates of the finder: expected 6"):
        augment_train(train, finder, more, tmp_path / "out")
    with pytest.raises(errors.ConfigError, match="shard_size"):
        augment_train(train, finder, OPTIONS, tmp_path / "out", shard_size=0)
    assert not (tmp_path / "out").exists()
