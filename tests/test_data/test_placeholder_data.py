"""A stand-in has the form of the task that it stands for."""

import numpy as np
import placeholder_data
import pytest

from tfdistill import tasks
from tfdistill.tasks.spec import TaskSpec

MULTI = TaskSpec("topics", "text", "topics", kind="multi_label", labels=("a", "b", "c"))


def written(spec, folder, **options):
    placeholder_data.write_placeholder_data(spec, folder, num_train=60, num_dev=20, **options)
    spec = spec.with_labels_of(folder)
    return [
        tasks.load_examples(spec, folder, split, labelled=True)
        for split in ("train", spec.dev_split)
    ]


@pytest.mark.parametrize("name", tasks.tasks())
def test_every_named_task_reads_its_placeholder_data(name, tmp_path):
    spec = tasks.task(name)
    train, dev = written(spec, tmp_path)
    if spec.kind == "span":
        assert train.questions is not None and len(train.questions) == 60
        return
    assert (len(train), len(dev)) == (60, 20)
    assert (train.pairs is None) == (spec.pair_column is None)
    if spec.kind == "classification":
        assert train.labels is not None
        assert set(train.labels) == set(range(spec.num_labels))


def test_a_question_has_its_answer_in_the_text_and_some_have_none(tmp_path):
    train, _ = written(tasks.task("squad_v2"), tmp_path)
    assert train.questions is not None
    unanswerable = [not question.answers for question in train.questions]
    assert 5 < sum(unanswerable) < 35  # of 60, drawn with 0.3
    for question in train.questions:
        if question.answers:
            assert question.context[question.start : question.end] == question.answers[0]


def test_several_labels_are_those_of_the_commands(tmp_path):
    train, _ = written(MULTI, tmp_path)
    counts = np.asarray(train.labels).sum(axis=1)
    assert set(counts) == {1, 2}


def test_the_same_seed_gives_the_same_files(tmp_path):
    texts = [
        written(tasks.task("mrpc"), tmp_path / name, seed=seed)[0].texts
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
