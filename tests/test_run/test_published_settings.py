"""What recipes of the papers have of the authors' code: docs/reference/differences.md has the rest.

Read from TinyBERT's task_distill.py, general_distill.py and data_augmentation.py (its README's
commands), DistilBERT's train.py and run_squad_w_distillation.py, MobileBERT's README and
distill_util.py, BERT-PKD's argument_parser.py (the arguments that it has beside its grid), and
d-bert's confs/birnn_sst2.json. MiniLM v2's and PD's training was not published.
"""

import numpy as np
import pytest
import tensorflow as tf

from tfdistill import augmentation, config, losses, tasks
from tfdistill.run import lessons

_BERT_ADAM = {"bias_correction": False, "weight_decay": 0.01, "epsilon": 1e-6, "clip": "per_tensor"}
_WARMED = {**_BERT_ADAM, "schedule": "linear_after_warmup", "warmup": 0.1}
_TINYBERT = {
    "general": {**_WARMED, "reduction": "reference", "epochs": 3, "batch_size": 256}
    | {"learning_rate": 5e-5, "max_length": 128, "projection": "shared"},
    "intermediate": {**_BERT_ADAM, "schedule": "constant", "warmup": 0.0, "epochs": 10}
    | {"reduction": "reference", "batch_size": 32, "learning_rate": 5e-5, "augmented": True},
    "prediction": {**_WARMED, "reduction": "reference", "epochs": 3, "batch_size": 32}
    | {"learning_rate": 3e-5, "temperature": 1.0, "augmented": True},
}
_PKD = {**_WARMED, "epochs": 4, "batch_size": 32}
_SQUAD = {"weight_decay": 0.0, "warmup": 0.0, "clip": "global", "epsilon": 1e-8, "epochs": 3}
_SQUAD |= {"keep_best": False}
PUBLISHED = {
    "tinybert_4l": _TINYBERT,
    "tinybert_6l": _TINYBERT,
    "tinybert_general": {"general": _TINYBERT["general"]},
    "distilbert_6l": {
        "distilbert": {"epochs": 3, "temperature": 2.0, "mask_smoothing": 0.7, "mask_rate": 0.15}
        | {"learning_rate": 5e-4, "schedule": "linear_after_warmup", "warmup": 0.05}
        | {"weight_decay": 0.0, "beta_2": 0.98, "epsilon": 1e-6, "clip_norm": 5.0},
    },
    "distilbert_6l_squad": {
        "labels": _SQUAD,
        "distillation": {**_SQUAD, "temperature": 2.0, "objective": "kl_divergence"}
        | {"scale_by_t2": True, "loss_weights": {"logits": 0.5, "label": 0.5}},
    },
    "mobilebert": {
        "transfer": {"transfer_steps": 10_000, "transfer_learning_rate": 1.5e-3, "earlier": "soft"}
        | {"steps": 500_000, "batch_size": 2048, "learning_rate": 1.5e-3, "warmup": 0.02}
        | {"end_learning_rate": 1.5e-7, "optimizer": "lamb", "next_sentence": True},
    },
    "minilm_6l_384d": {
        "relations": {"relation_heads": 48, "steps": 400_000, "batch_size": 256, "warmup": 0.01}
        | {"learning_rate": 6e-4, "reduction": "reference"},
    },
    "pkd": {
        "labels": {**_PKD, "learning_rate": 2e-5},
        "logits": {**_PKD, "learning_rate": 2e-5, "temperature": 20.0, "reduction": "reference"}
        | {"objective": "kl_divergence", "loss_weights": {"logits": 0.7, "label": 0.3}},
        "patient": {**_PKD, "learning_rate": 1e-5, "temperature": 10.0, "reduction": "reference"}
        | {"loss_weights": {"label": 0.3, "logits": 0.7, "patient": 500.0}, "layer_map": "skip"},
    },
    "bilstm_sst2": {
        "distillation": {"objective": "logit_mse", "reduction": "reference", "epochs": 30}
        | {"batch_size": 50},
    },
}
STARTS = {
    **dict.fromkeys(("tinybert_4l", "tinybert_6l", "tinybert_general"), "random"),
    **dict.fromkeys(("minilm_6l_384d", "bilstm_sst2"), "random"),
    "distilbert_6l": "layers",
    "pkd": "layers",
    "mobilebert": "teacher",  # its embeddings
    "distilbert_6l_squad": "distilbert-base-uncased",
}
LAST = {  # the stages of the exported variant
    "tinybert_4l": ("general", "intermediate", "prediction"),
    "tinybert_6l": ("general", "intermediate", "prediction"),
    "tinybert_general": ("general",),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_has_the_values_of_the_published_code(name):
    recipe = config.load_recipe(name)
    received = {
        stage: {key: getattr(recipe.stages[stage], key) for key in values}
        for stage, values in PUBLISHED[name].items()
    }
    assert received == PUBLISHED[name]
    assert recipe.student.initialise == STARTS[name]
    if name in LAST:
        assert list(recipe.variants.values())[-1].stages == LAST[name]


def test_a_task_is_augmented_as_in_the_published_code():
    for name in ("tinybert_4l", "tinybert_6l"):
        augment = config.load_recipe(name, ["data.task=mnli"]).data.augment
        assert augment is not None and augment.copies is None  # the published number of the task
        assert (augment.probability, augment.candidates) == (0.4, 15)
    copies = {"sst2": 20, "qnli": 20, "mnli": 10, "qqp": 10, "cola": 30, "rte": 30}
    assert {task: augmentation.copies_for(task) for task in copies} == copies


@pytest.mark.parametrize(("name", "temperature"), [("logits", 20.0), ("patient", 10.0)])
def test_the_published_mean_of_pkd_is_over_the_classes_too(name, temperature):
    """PyTorch's KLDivLoss(reduction="mean"): a C-th of the mean over the batch."""
    teacher, student = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    shares = [np.exp(logits / temperature) for logits in (teacher, student)]
    p, q = (powers / powers.sum(axis=-1, keepdims=True) for powers in shares)
    expected = temperature**2 * np.mean(p * np.log(p / q))
    stage = config.load_recipe("pkd").stages[name]
    loss = lessons.losses_of(stage, None, None, tasks.KINDS["classification"])["logits"]  # pyright: ignore
    batch = losses.StepInputs(
        teacher={"logits": tf.constant(teacher)},
        student={"logits": tf.constant(student)},
        labels=None,
        mask=tf.ones((4, 1)),
        sample_weight=tf.ones(4),
        features={},
    )
    # Logs of float32 shares that are nearly equal at this temperature.
    np.testing.assert_allclose(loss.compute(batch), expected, rtol=1e-3)
