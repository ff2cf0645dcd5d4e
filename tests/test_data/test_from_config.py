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


STSB = {"task": "stsb", "kind": "embedding", "encoding": "latin-1"}  # its encoding is read


@pytest.mark.parametrize(
    "section, field, value",
    [
        ({"task": "sst2"}, "pair_column", "title"),
        ({"task": "assistant"}, "layout", "folders"),
        ({"task": "mrpc"}, "label_separator", "|"),
        ({"task": "imdb"}, "unanswerable", True),
        ({"task": "ner"}, "max_answer_length", 5),
        (STSB, "pair_column", "title"),
        (STSB, "label_separator", "|"),
        (STSB, "labels", ("a", "b")),
        (STSB, "layout", "folders"),
    ],
)
def test_what_a_built_in_task_does_not_read_is_refused(section, field, value):
    read = from_config.declared_task(config.DataConfig(**section))
    assert read.encoding == section.get("encoding", read.encoding)
    with pytest.raises(errors.ConfigError, match=rf"^data\.{field}: expected none with "):
        from_config.declared_task(config.DataConfig(**section, **{field: value}))


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
