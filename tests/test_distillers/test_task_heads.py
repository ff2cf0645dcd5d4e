"""Several labels a text: what reads them as one label says so before the first step."""

import dataclasses

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

import tfdistill
from tfdistill import config, distillers, errors, losses, methods, tasks
from tfdistill.data import batches
from tfdistill.run import lessons

SEVERAL = tasks.TaskSpec("tags", "text", "label", kind="multi_label", labels=("a", "b", "c"))
ONE = tasks.TaskSpec("one", "text", "label", labels=("a", "b", "c"))
FEATURES = toys.features((5, 3, 6, 4))
ROWS = tf.constant([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], tf.float32)


def examples(task):
    rows = toys.encoded(8)
    if task is SEVERAL:
        rows = dataclasses.replace(rows, labels=np.eye(3, dtype=np.float32)[rows.labels])
    return batches.Batches(dataclasses.replace(rows, task=task), batch_size=4)


def distiller_of(teacher, student, users_losses):
    distiller = distillers.Distiller(teacher, student, users_losses)
    distiller.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return distiller


SOFTMAX = {
    "joint": (SEVERAL, methods.joint),
    "own name": (SEVERAL, lambda: {"kl": losses.SoftCrossEntropy()}),
    "gold": (SEVERAL, methods.labels),
    "sigmoids": (ONE, lambda: methods.joint(head="multi_label")),
}


@pytest.mark.parametrize(("task", "make"), SOFTMAX.values(), ids=SOFTMAX)
def test_losses_with_another_head_than_the_task_are_refused(teacher, student, tmp_path, task, make):
    distiller, data = distiller_of(teacher, student, make()), examples(task)
    before = [array.copy() for array in student.get_weights()]
    for act in (
        lambda: distiller.fit(data, verbose=0),
        lambda: distiller.fit(data.dataset(), validation_data=data, verbose=0),
        lambda: distiller.evaluate(data, verbose=0),
        lambda: tfdistill.fit(distiller, data, epochs=1, folder=tmp_path),
    ):
        with pytest.raises(errors.ConfigError, match=f'Pass head="{task.head}" to the method'):
            act()
    toys.check_equal(before, student.get_weights())


@pytest.mark.parametrize("labels", [ROWS, tf.cast(ROWS, tf.int32), ROWS[:, :2]])
def test_several_labels_a_text_are_no_class(student, labels):
    step = distiller_checks.compiled(distillers.LabelTrainer(student)).test_step
    with pytest.raises(errors.ShapeError, match=r'shape \(batch,\).*head="multi_label"'):
        step((FEATURES, labels))


@pytest.mark.parametrize("width", [1, 3], ids=["number", "class"])
def test_a_column_of_labels_is_one_label_a_text(built, width):
    student = toys.randomise(built(toys.SHALLOW_STUDENT, width), seed=2)
    step = distiller_checks.compiled(distillers.LabelTrainer(student)).test_step
    labels = toys.labels(4)
    column = distiller_checks.logged(step, FEATURES, labels[:, None])
    assert column == distiller_checks.logged(step, FEATURES, labels)


@pytest.mark.parametrize("task", [SEVERAL, ONE], ids=["several", "one"])
def test_a_combination_reads_answers_as_its_task_does(teacher, student, task):
    described = {
        "kl": {"loss": "KLDivergence", "temperature": 2.0},
        "label": {"loss": "GoldLabels", "weight": 0.5},
        "hidden": {"loss": "HiddenStateMSE", "projection": "auto"},
    }
    stage = config.Stage(kind="combination", losses=described)
    built = lessons.losses_of(stage, teacher, student, task.traits)
    named = {
        name: {**loss, "head": task.head} if name != "hidden" else loss
        for name, loss in described.items()
    }
    expected = distillers.Distiller(teacher, student, losses.build_losses(named))
    labels = ROWS if task is SEVERAL else toys.labels(4)
    received, wanted = (
        distiller_checks.logged(distiller_checks.compiled(each).test_step, FEATURES, labels)
        for each in (distillers.Distiller(teacher, student, built), expected)
    )
    terms = ("kl", "label")
    assert [received[term] for term in terms] == pytest.approx([wanted[term] for term in terms])


def test_a_combination_keeps_the_heads_that_it_names():
    described = {"kl": {"loss": "KLDivergence", "head": "sequence"}}
    stage = config.Stage(kind="combination", losses=described)
    assert lessons.losses_of(stage, None, None, SEVERAL.traits)["kl"].head == "sequence"
