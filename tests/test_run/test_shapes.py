"""What does not fit between teacher and student is said before any training."""

import json
import pathlib
import types

import numpy as np
import pytest
import tf_keras as keras
import toy_recipes

from tfdistill import config, models, training, weights
from tfdistill.run import initialise, shapes, task_models

FOUR_STAGES = str(pathlib.Path(__file__).with_name("four_stages.yaml"))
SHAPE = models.preset("bert_tiny").replace(vocab_size=32)


def save(shape, folder):
    model = models.build_encoder(shape)
    weights.save_hf(model, folder / "teacher")
    return model


def faults(*overrides):
    return shapes.shape_faults(config.load_recipe(FOUR_STAGES, overrides))


def test_every_recipe_that_comes_with_us_fits():
    for name in config.recipes():
        recipe = config.load_recipe(name)
        toy = toy_recipes.scaled_down(recipe, pathlib.Path("data"))
        for way in (recipe, toy, config.with_baseline(recipe)):
            assert shapes.shape_faults(way) == [], name


def test_unknown_presets_and_sizes_that_do_not_divide_are_named():
    teacher, student = faults("teacher.source=preset:bert_mni", "student.preset=tinybert_2l_128")
    assert teacher.startswith("teacher.source: preset") and "'bert_mini'" in teacher
    assert student.startswith("student: preset") and "'tinybert_2l_128d'" in student
    (fault,) = faults("student.num_heads=7")
    assert fault.startswith("student: ") and "7" in fault  # no divisor of its width


def test_unequal_heads_are_named_where_attention_is_learnt():
    general, intermediate = faults("student.num_heads=2")
    assert "student.num_heads, for stages.general: expected 4" in general
    assert "stages.intermediate.loss_weights.attention=0" in intermediate
    (general,) = faults("student.num_heads=2", "stages.intermediate.loss_weights.attention=0")
    assert "stages.general" in general
    for stages, count in (("intermediate, prediction", 1), ("prediction", 0)):  # those in use
        variants = f"variants={{student: {{stages: [{stages}]}}}}"
        assert len(faults("student.num_heads=2", variants)) == count


@pytest.mark.slow
def test_a_folder_tells_its_heads_and_a_hub_id_nothing(tmp_path):
    save(SHAPE, tmp_path)
    two, _ = faults(f"teacher.source={tmp_path / 'teacher'}")
    assert "expected 2 as in the teacher" in two
    assert faults("teacher.source=someone/some-bert") == []
    messages = faults("teacher.source=preset:bilstm_1l_150d")
    assert messages and not any("num_heads" in message for message in messages)


def test_a_part_of_a_folder_s_teacher_fits_whatever_its_vocabulary(tmp_path):
    save(SHAPE, tmp_path)
    source, variants = f"teacher.source={tmp_path / 'teacher'}", "variants={a: {stages: [labels]}}"
    stage = "stages.labels={kind: logits}"
    for preset, fits in (("'pruned:layers=1'", True), ("bert_tiny", True), ("bert_mini", False)):
        student = f"student={{preset: {preset}, initialise: pruned}}"
        assert (faults(source, variants, stage, student) == []) == fits, preset


def test_word_vectors_that_are_narrower_than_the_student_s_start_none(tmp_path):
    shape = SHAPE.replace(embedding_size=64, family="electra", pooler=False)
    teacher = save(shape, tmp_path)
    overrides = f"teacher.source={tmp_path / 'teacher'}", "student.num_heads=2"
    (fault,) = faults(*overrides, "student.initialise=teacher")
    assert "Set student.initialise=random" in fault
    for start in ("random", "auto"):
        assert faults(*overrides, f"student.initialise={start}") == []
    first, student = config.new_stage("general"), models.preset("tinybert_2l_128d")
    assert task_models.has_narrower_words(first, shape, student)
    assert not task_models.has_narrower_words(first, shape.replace(embedding_size=None), student)
    assert not task_models.has_narrower_words(config.new_stage("labels"), shape, student)

    start = types.SimpleNamespace(
        settings=types.SimpleNamespace(start="auto"),
        first=first,
        teachers=types.SimpleNamespace(soft_labels=None, task=teacher, shape=lambda stage: shape),
        data=types.SimpleNamespace(task="any"),
    )
    student = student.replace(num_layers=1, vocab_size=32)
    assert initialise.resolve_start(start, student) == "random"
    projection = keras.layers.Dense(128)
    projection.build((None, 128))
    before = projection.kernel.numpy()
    training.initialise_projections([projection], models.build_encoder(student), teacher)
    assert (projection.kernel.numpy() == before).all()


def test_projections_of_a_narrow_student_start_as_the_directions_that_it_keeps():
    basis = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)  # teacher, student
    states, vectors = keras.layers.Dense(6), keras.layers.Dense(5)
    for layer in (states, vectors):
        layer.build((None, 4))
        layer.bias.assign_add(np.ones(layer.bias.shape))
    before = vectors.kernel.numpy()
    origin = initialise.Origin("pruned", basis=basis)

    def teacher():
        raise AssertionError("a basis needs no teacher")

    initialise.start_projections(
        [states, vectors], models.build_encoder("bert_tiny"), origin, teacher
    )
    np.testing.assert_array_equal(states.kernel.numpy(), basis.T)
    assert not states.bias.numpy().any()
    np.testing.assert_array_equal(vectors.kernel.numpy(), before)  # of another width
    random = initialise.Origin("random")
    initialise.start_projections([states], models.build_encoder("bert_tiny"), random, teacher)
    np.testing.assert_array_equal(states.kernel.numpy(), basis.T)


def test_losses_of_a_recipe_are_checked_without_importing_the_user_s_own(tmp_path, monkeypatch):
    (tmp_path / "own_losses.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def described(**losses):
        stage = {"kind": "combination", "reads": "task", "losses": losses}
        return config.load_recipe(
            FOUR_STAGES, [f"stages.mix={json.dumps(stage)}", "variants={student: {stages: [mix]}}"]
        )

    users_loss = {"loss": "own_losses:Mine", "weight": 2}
    assert shapes.shape_faults(described(centred=users_loss)) == []
    with pytest.raises(RuntimeError, match="imported"):
        shapes.shape_faults(described(centred=users_loss), import_classes=True)
    first, second = shapes.shape_faults(
        described(a={"loss": "HidenStateMSE"}, b={"loss": "KLDivergence", "temperature": 0})
    )
    assert first.startswith("stages.mix.losses.a: loss") and "'HiddenStateMSE'" in first
    assert second.startswith("stages.mix.losses.b: temperature")


def test_a_size_needs_float_weights_and_labelled_texts_that_chose_nothing():
    sized = ["export.size_mb=8"]
    plain = config.load_recipe(FOUR_STAGES, sized)
    aware = config.load_recipe("compress", sized)
    assert aware.gives_quantize_aware
    assert shapes.shape_faults(plain) == []
    (fault,) = [fault for fault in shapes.shape_faults(aware) if "size_mb" in fault]
    assert "expected none after quantization-aware training" in fault
    data = plain.data.model_copy(update={"cross_fitted": True})
    (fault,) = shapes.shape_faults(plain.model_copy(update={"data": data}))
    assert "export.size_mb: expected none with data.cross_fitted" in fault
