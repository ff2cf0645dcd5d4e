"""Knowledge transfer: what its stages learn, and that a kill at any moment changes nothing."""

import dataclasses

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import errors, models, training
from tfdistill.data.streaming import StepRange
from tfdistill.training import transfer as transfers
from tfdistill.training import variables

CONFIG = models.MobileBertConfig(
    num_layers=2,
    hidden_size=8,
    num_heads=2,
    intermediate_size=6,
    vocab_size=30,
    max_positions=12,
    embedding_size=4,
    bottleneck_size=4,
    num_feed_forward=1,
    hidden_act="relu",
    dropout=0.0,
    attention_dropout=0.0,
)
TEACHER = CONFIG.replace(
    bottleneck_size=8, shared_key_query=False, normalization="layer_norm", hidden_act="gelu_tanh"
)
PER_EPOCH = 5
PKT = {"num_layers": 2, "transfer_steps": 1, "steps": 1}


class Stream:
    """Masked batches of three examples that are the same in each epoch; notes who asks for what."""

    steps_per_epoch, num_examples = PER_EPOCH, 3 * PER_EPOCH

    def __init__(self):
        random = np.random.default_rng(0)
        batches = []
        for step in range(PER_EPOCH):
            features = toys.features((6, 4, 5), seed=step)
            chosen = (random.random((3, 6)) < 0.4) & (features["attention_mask"].numpy() == 1)
            chosen[:, 1] = True
            labels = np.where(chosen, random.integers(1, 30, (3, 6)), -100)
            features["prediction_mask"] = tf.constant(chosen, tf.int32)
            features["mlm_labels"] = tf.constant(labels, tf.int32)
            batches.append(features)
        self.batches = {name: tf.stack([b[name] for b in batches]) for name in batches[0]}
        self.taken = []

    def dataset(self, *, epochs=1, start_step=0):
        self.taken.append(start_step)
        return tf.data.Dataset.from_tensor_slices(self.batches).repeat(epochs).skip(start_step)


# The lists of stages.


def test_akt_learns_all_at_once_and_jkt_the_layers_and_then_the_words():
    (stage,) = training.transfer_stages("akt", num_layers=3, steps=7)
    assert stage == training.TransferStage(
        name="all", layers=(0, 1, 2), predict_words=True, steps=7
    )
    stages = training.transfer_stages("jkt", num_layers=3, transfer_epochs=2, epochs=5)
    assert stages == (
        training.TransferStage(name="layers", layers=(0, 1, 2), predict_words=False, epochs=2),
        training.TransferStage(name="words", layers=(), predict_words=True, epochs=5),
    )
    assert [stage.num_batches(10) for stage in stages] == [20, 50]


@pytest.mark.parametrize(
    ("earlier", "rates"),
    [
        ("freeze", (("layer_2_*", 1.0), ("*", 0.0))),
        ("soft", (("layer_0_*", 0.3), ("layer_1_*", 0.3), ("layer_2_*", 3.0), ("*", 0.0))),
        ("full", ()),
    ],
)
def test_pkt_learns_layer_after_layer_and_then_the_words(earlier, rates):
    stages = training.transfer_stages(
        "pkt", num_layers=3, transfer_steps=10, steps=50, earlier=earlier
    )
    assert [stage.name for stage in stages] == ["layer_0", "layer_1", "layer_2", "words"]
    assert [stage.layers for stage in stages] == [(0,), (1,), (2,), ()]
    assert [stage.predict_words for stage in stages] == [False, False, False, True]
    assert [stage.steps for stage in stages] == [10, 10, 10, 50]
    assert stages[2].rates == rates
    assert stages[3].rates == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        stages[0].steps = 3


@pytest.mark.parametrize(
    ("strategy", "options", "says"),
    [
        ("pct", {"steps": 1}, "strategy: expected one of akt, jkt, pkt"),
        ("pkt", {"transfer_steps": 1, "earlier": "slow"}, "earlier: expected one of freeze, soft"),
        ("akt", {}, "length of akt (steps, epochs): expected either steps or epochs"),
        ("akt", {"steps": 1, "epochs": 1}, "received 1 and 1"),
        ("jkt", {"steps": 1}, "length of jkt (transfer_steps, transfer_epochs)"),
        ("pkt", {"transfer_steps": 0}, "at least 1, received 0 and None"),
        ("pkt", {"transfer_steps": 1, "steps": 0}, "stage words"),
    ],
)
def test_lists_without_sense_are_refused(strategy, options, says):
    with pytest.raises(errors.ConfigError) as caught:
        training.transfer_stages(strategy, num_layers=2, **options)
    assert says in str(caught.value)


def test_the_published_optimizer_is_lamb_constant_for_layers_and_falling_for_words():
    layers, words = training.transfer_stages("jkt", num_layers=2, transfer_steps=100, steps=500)
    constant = training.published_optimizer(layers, 100)
    assert type(constant).__name__ == "LAMB"
    assert float(constant.learning_rate) == pytest.approx(1.5e-3)
    assert constant.global_clipnorm == 1.0
    rate = training.published_optimizer(words, 500).learning_rate
    values = [float(rate(tf.constant(step))) for step in (5, 10, 500)]
    assert values == pytest.approx([0.75e-3, 1.5e-3 * 0.98 + 1.5e-7 * 0.02, 1.5e-7], rel=1e-5)


# Ranges of a stream.


@pytest.mark.parametrize(("start", "steps", "parts"), [(0, 5, 5), (3, 23, 1), (7, 40, 20)])
def test_a_step_range_is_the_stream_s_own_batches(start, steps, parts):
    stream = Stream()
    part = StepRange(stream, start=start, steps=steps)
    assert (part.parts, part.steps_per_epoch) == (parts, steps // parts)
    assert part.num_examples == 3 * part.steps_per_epoch
    ids = stream.batches["input_ids"].numpy()
    expected = [ids[step % PER_EPOCH] for step in range(start, start + steps)]
    for skipped in (0, 4, steps):
        part_stream = part.dataset(epochs=part.parts, start_step=skipped)
        received = [batch["input_ids"].numpy() for batch in part_stream]
        assert len(received) == steps - skipped
        toys.check_equal(received, expected[skipped:])
    with pytest.raises(errors.ConfigError, match="start_step"):
        part.dataset(epochs=part.parts, start_step=steps + 1)
    with pytest.raises(errors.ConfigError, match="step range: expected a start >= 0"):
        StepRange(stream, start=-1, steps=steps)


# Carrying them out. Eagerly: a graph for each stage of each run would take most of the time.


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAt(keras.callbacks.Callback):
    """Ends the process at a batch, counted over all stages and calls."""

    def __init__(self, batch):
        super().__init__()
        self.left = batch

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise Killed


@pytest.fixture(scope="module")
def pairs():
    """Teacher and student of so many layers, the student as it starts."""
    pairs_of_shapes = {}

    def fresh(num_layers):
        if num_layers not in pairs_of_shapes:
            teacher, student = (
                toys.randomise(models.build_masked_lm(config.replace(num_layers=num_layers)), seed)
                for seed, config in ((1, TEACHER), (2, CONFIG))
            )
            pairs_of_shapes[num_layers] = teacher, student, student.get_weights()
        teacher, student, start = pairs_of_shapes[num_layers]
        student.set_weights(start)
        return teacher, student

    return fresh


@pytest.fixture
def transfer(pairs):
    """Carries out a list of stages from the student's start, as one process."""

    def run(folder, stages, *extra, stream=None, restart=True, num_layers=1, **options):
        teacher, student = pairs(num_layers)
        if not restart:  # whatever the next process begins with
            toys.randomise(student, 99)
        options = {
            "optimizer": lambda stage, steps: training.lamb(0.05),
            "compile_options": {"run_eagerly": True},
            "checkpoint_seconds": 0,
            **options,
        }
        results = training.run_transfer(
            stages, teacher, student, stream or Stream(), folder, extra_callbacks=extra, **options
        )
        return results, student.get_weights()

    return run


def stage_ends(folder, stages):
    """The weights that each stage ended with, the start first."""
    paths = [folder / transfers.START]
    paths += [
        folder / f"{index:02d}-{stage.name}" / transfers.WEIGHTS
        for index, stage in enumerate(stages)
    ]
    return [safetensors.numpy.load_file(path) for path in paths]


def moved(before, after):
    return {name.split("/")[0] for name in before if (before[name] != after[name]).any()}


@pytest.mark.parametrize(
    "earlier",
    [
        "freeze",
        pytest.param("soft", marks=pytest.mark.thorough),
        pytest.param("full", marks=[pytest.mark.slow, pytest.mark.thorough]),
    ],
)
def test_pkt_moves_what_its_stage_says_bit_for_bit(transfer, tmp_path, earlier):
    stages = training.transfer_stages("pkt", earlier=earlier, **PKT)
    stream = Stream()
    results, weights = transfer(tmp_path, stages, stream=stream, num_layers=2)
    assert [result.steps for result in results] == [1, 1, 1]
    assert stream.taken == [0, 1, 2]  # one stream through all stages
    start, *ends = stage_ends(tmp_path, stages)
    first, second, words = (
        moved(before, after) for before, after in zip([start, *ends], ends, strict=False)
    )

    def blocks(names):
        return {name[:7] for name in names if name.startswith("layer_")}

    embeddings = {"word_embeddings", "embedding_projection", "position_embeddings"}
    assert blocks(first) == {"layer_0"}
    assert blocks(second) == ({"layer_1"} if earlier == "freeze" else {"layer_0", "layer_1"})
    for names in (first, second):
        assert names & embeddings == (embeddings if earlier == "full" else set())
        assert not any(name.startswith("mlm_") for name in names)
    assert {"layer_0", "layer_1"} == blocks(words)
    assert {"mlm_transform", "mlm_extra_decoder", "mlm_bias"} | embeddings <= words
    for ours, last in zip(weights, ends[-1].values(), strict=False):
        assert np.isfinite(ours).all()
        assert np.isfinite(last).all()


@pytest.fixture(scope="module")
def whole(pairs, tmp_path_factory):
    """The PKT run that nothing interrupts: (stages, steps, weights, folder)."""
    folder = tmp_path_factory.mktemp("whole")
    stages = training.transfer_stages(
        "pkt", num_layers=1, transfer_steps=3, steps=4, earlier="soft"
    )
    teacher, student = pairs(1)
    results = training.run_transfer(
        stages,
        teacher,
        student,
        Stream(),
        folder,
        optimizer=lambda stage, steps: training.lamb(0.05),
        compile_options={"run_eagerly": True},
    )
    return stages, [result.steps for result in results], student.get_weights(), folder


def check_equals(whole, results, weights, folder):
    stages, steps, expected, reference = whole
    assert [result.steps for result in results] == steps
    toys.check_equal(weights, expected)
    for ours, expected_weights in zip(
        stage_ends(folder, stages), stage_ends(reference, stages), strict=True
    ):
        for name, values in expected_weights.items():
            np.testing.assert_array_equal(ours[name], values, err_msg=name)
    for path in reference.glob("*/history.csv"):
        ours, expected_weights = (
            [{k: v for k, v in row.items() if "second" not in k} for row in rows]
            for rows in map(
                training.callbacks.read_history, (folder / path.relative_to(reference), path)
            )
        )
        assert ours == expected_weights


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    "kills",
    [
        (2,),  # in the middle of the first layer
        (3,),  # after its last step, before its end is saved
        (1, 4),  # once in each stage
    ],
)
def test_a_run_that_was_killed_equals_one_that_was_not(whole, transfer, tmp_path, kills):
    for count, batches in enumerate(kills):
        with pytest.raises(Killed):
            transfer(tmp_path, whole[0], KillAt(batches), restart=count == 0)
    check_equals(whole, *transfer(tmp_path, whole[0], restart=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("before_plan", marks=pytest.mark.thorough),
        pytest.param("before_weights", marks=pytest.mark.thorough),
        *("before_result", "before_next_stage"),
    ],
)
def test_a_run_killed_at_a_boundary_equals_one_that_was_not(
    whole, transfer, tmp_path, monkeypatch, moment
):
    save, write_json = variables.save, transfers.files.atomic_write_json

    def killed_before(path, name):
        if path.name == name:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        if moment == "before_weights":
            patch.setattr(
                variables,
                "save",
                lambda held, path: killed_before(path, transfers.WEIGHTS) or save(held, path),
            )
        elif moment == "before_next_stage":
            name = transfers.RESULT  # which is there
            remove = lambda folder: killed_before(folder / name, name)  # noqa: E731
            patch.setattr(transfers.checkpoints, "remove", remove)
        else:
            name = {"before_plan": transfers.PLAN, "before_result": transfers.RESULT}[moment]
            patch.setattr(
                transfers.files,
                "atomic_write_json",
                lambda path, value: killed_before(path, name) or write_json(path, value),
            )
        transfer(tmp_path, whole[0])
    # Without a plan nothing was begun: the next process starts with its own student.
    restart = moment == "before_plan"
    check_equals(whole, *transfer(tmp_path, whole[0], restart=restart), tmp_path)


def test_a_finished_run_is_left_as_it_is_and_gives_its_student(whole, transfer):
    stages, _, _, folder = whole
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert not list(folder.rglob("*.index"))  # no optimizer is kept
    stream = Stream()
    check_equals(whole, *transfer(folder, stages, restart=False, stream=stream), folder)
    assert not stream.taken
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_folder_of_other_stages_or_of_another_student_is_refused(whole, pairs, tmp_path):
    stages, _, _, folder = whole
    other = training.transfer_stages("pkt", num_layers=1, transfer_steps=3, steps=4)
    teacher, student = pairs(1)
    run = {"optimizer": None, "train": Stream()}
    with pytest.raises(errors.ConfigError, match=r"those in plan.json, .* Choose another folder"):
        training.run_transfer(other, teacher, student, folder=folder, **run)
    narrow = models.build_masked_lm(CONFIG.replace(num_layers=1, bottleneck_size=6))
    with pytest.raises(errors.WeightsError, match="the student of the first call"):
        training.run_transfer(stages, teacher, narrow, folder=folder, **run)
    with pytest.raises(errors.ConfigError, match="Did you mean 'attention'"):
        training.run_transfer(
            stages, teacher, student, folder=tmp_path, loss_weights={"attentions": 1.0}, **run
        )
    with pytest.raises(errors.ConfigError, match="stages: expected at least one"):
        training.run_transfer((), teacher, student, folder=tmp_path, **run)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.thorough
def test_in_graphs_with_gathered_gradients_a_kill_changes_nothing(transfer, tmp_path):
    stages = training.transfer_stages("jkt", num_layers=1, transfer_steps=7, steps=6)
    options = {"compile_options": None, "gradient_accumulation": 2}
    expected, weights = transfer(tmp_path / "whole", stages, **options)
    with pytest.raises(Killed):
        transfer(tmp_path / "killed", stages, KillAt(10), **options)
    results, received = transfer(tmp_path / "killed", stages, restart=False, **options)
    assert [result.steps for result in results] == [result.steps for result in expected] == [7, 6]
    toys.check_equal(received, weights)


# Where the student starts.


@pytest.mark.slow
@pytest.mark.parametrize("heads", [False, True])
def test_a_student_starts_with_its_teacher_s_embeddings_and_heads_on_request(heads):
    teacher = toys.randomise(models.build_masked_lm(TEACHER, next_sentence=True), 1)
    student = toys.randomise(models.build_masked_lm(CONFIG, next_sentence=True), 2)
    before = {layer.name: layer.get_weights() for layer in student.layers}
    training.initialise_from_mobilebert_teacher(student, teacher, heads=heads)
    copied = set()
    for layer in student.layers:
        if not layer.weights:
            continue
        copies = all(
            (a == b).all() for a, b in zip(layer.get_weights(), before[layer.name], strict=True)
        )
        if not copies:
            copied.add(layer.name)
            teacher_weights = teacher.get_layer(layer.name).get_weights()
            toys.check_equal(layer.get_weights(), teacher_weights)
    embeddings = {"word_embeddings", "embedding_projection", "position_embeddings"}
    embeddings |= {"token_type_embeddings", "embeddings_layer_norm"}
    answers = {"mlm_transform", "mlm_layer_norm", "mlm_extra_decoder", "mlm_bias", "nsp_classifier"}
    assert copied == (embeddings | answers if heads else embeddings)


@pytest.mark.slow
def test_a_teacher_of_other_embeddings_is_refused_and_nothing_changed():
    student = models.build_masked_lm(CONFIG)
    before = student.get_weights()
    wide = models.build_masked_lm(TEACHER.replace(embedding_size=6))
    with pytest.raises(errors.ShapeError) as caught:
        training.initialise_from_mobilebert_teacher(student, wide)
    assert "'word_embeddings': '[(30, 4)] here, [(30, 6)] there'" in str(caught.value)
    assert "embedding_projection" in str(caught.value)
    silent = models.build_encoder(TEACHER)
    with pytest.raises(errors.ShapeError, match="no such layer"):
        training.initialise_from_mobilebert_teacher(student, silent, heads=True)
    with pytest.raises(errors.ShapeError, match="a student without heads"):
        training.initialise_from_mobilebert_teacher(
            models.build_encoder(CONFIG), models.build_masked_lm(TEACHER), heads=True
        )
    toys.check_equal(student.get_weights(), before)
