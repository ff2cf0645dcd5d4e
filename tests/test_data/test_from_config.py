"""A data section is read, or what of it is not read is refused by name."""

import pytest

from tfdistill import config, errors
from tfdistill.data import from_config, synthetic


def test_the_built_in_data_take_metrics_labels_and_splits():
    section = config.DataConfig(
        task="assistant",
        metrics=("macro_f1", "accuracy"),
        labels=synthetic.INTENTS[::-1],
        dev_split="test",
    )
    task = from_config.declared_task(section)
    assert (task.metrics, task.primary_metric) == (("macro_f1", "accuracy"), "macro_f1")
    assert (task.labels, task.dev_split) == (synthetic.INTENTS[::-1], "test")
    assert from_config.declared_task(config.DataConfig(task="assistant")) == synthetic.TASK


@pytest.mark.parametrize(
    "task, field, value",
    [
        ("sst2", "pair_column", "title"),
        ("assistant", "layout", "folders"),
        ("mrpc", "label_separator", "|"),
        ("imdb", "unanswerable", True),
        ("ner", "max_answer_length", 5),
    ],
)
def test_what_a_built_in_task_does_not_read_is_refused(task, field, value):
    section = config.DataConfig(task=task, **{field: value})
    with pytest.raises(errors.ConfigError, match=rf"^data\.{field}: expected none with "):
        from_config.declared_task(section)


@pytest.mark.parametrize(
    "field, value",
    [
        ("pair_column", "title"),
        ("label_separator", "|"),
        ("labels", ("a", "b")),
        ("layout", "folders"),
    ],
)
def test_a_built_in_task_as_an_embedding_reads_its_encoding_and_no_more(field, value):
    section = config.DataConfig(task="stsb", kind="embedding", encoding="latin-1")
    assert from_config.declared_task(section).encoding == "latin-1"
    with pytest.raises(errors.ConfigError, match=rf"^data\.{field}: expected none with "):
        from_config.declared_task(section.model_copy(update={field: value}))


def test_a_separator_of_several_labels_is_refused_where_there_is_one():
    fields = {"task": "own", "text_column": "text", "label_column": "label", "label_separator": "|"}
    several = config.DataConfig(**fields, kind="multi_label")
    assert from_config.declared_task(several).label_separator == "|"
    with pytest.raises(errors.ConfigError, match=r"^data\.label_separator: .* of kind classif"):
        from_config.declared_task(config.DataConfig(**fields))


def test_two_test_sets_are_a_fault_and_none_is_not(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text("text,label\none,a\ntwo,b\n")
    section = config.DataConfig(
        task="own", dir=str(tmp_path), text_column="text", label_column="label"
    )
    assert from_config.test_examples(section) is None
    (tmp_path / "test.csv").write_text("text,label\nthree,a\n")
    assert from_config.test_examples(section).texts == ["three"]
    (tmp_path / "test.tsv").write_text("text\tlabel\nfour\tb\n")
    with pytest.raises(errors.DataError, match=r"one file, received .*test\.tsv, test\.csv"):
        from_config.test_examples(section)
