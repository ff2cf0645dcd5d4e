"""Fits that are killed, resumed, stopped, poisoned and short of room."""

import errno
import hashlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toy_run
import toys
from toy_run import KillAt, Killed, check_equals

from tfdistill import distillers, errors, training
from tfdistill.data import batches
from tfdistill.training import callbacks, checkpoints

STEPS, EPOCHS = toy_run.STEPS, toy_run.EPOCHS
SCORES = (0.5, 0.8, 0.7, 0.9)  # of each epoch: the third is worse than the second


class CountSteps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1


@pytest.fixture(scope="module")
def run():
    return toy_run.Run()


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """The fit that nothing interrupts: (result, state, history)."""
    folder = tmp_path_factory.mktemp("whole")
    result = run.fit(folder)
    return result, run.state(), toy_run.history(folder)


@pytest.fixture
def second_a_step(run, monkeypatch):
    monkeypatch.setattr(callbacks, "time", toy_run.clock_of_steps(run))


def files_of(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(pathlib.Path(folder).rglob("*"))
        if path.is_file()
    }


# Kill and resume.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "kills", "redone"),
    [
        (1, (2,), 0),  # in the middle of an epoch
        (1, (5,), 1),  # after the last step of an epoch, before its end is saved
        (1, (1, 3, 4), 0),  # three times in one epoch
        (3, (14,), 2),  # just before the end
        (3, (2, 8, 10), 2 + 2 + 1),  # once before the first checkpoint
        (5, (7, 13), 2 + 3),  # epochs as long as the seconds
        (8, (12,), 4),  # once in two epochs
        (None, (7, 13), 7 + 13),  # all of it takes less than the usual seconds
    ],
)
@pytest.mark.usefixtures("second_a_step")
def test_a_resumed_fit_equals_an_uninterrupted_one(run, whole, tmp_path, seconds, kills, redone):
    counter = CountSteps()
    for step in kills:
        with pytest.raises(Killed):
            run.fit(tmp_path, counter, KillAt(step), checkpoint_seconds=seconds)
    result = run.fit(tmp_path, counter, checkpoint_seconds=seconds)
    check_equals(whole, run, result, tmp_path)
    assert counter.steps == STEPS * EPOCHS + redone


def test_a_fit_killed_between_epochs_resumes(run, whole, tmp_path):
    def kill(epoch, logs):
        if epoch == 1:
            raise Killed

    with pytest.raises(Killed):
        run.fit(tmp_path, keras.callbacks.LambdaCallback(on_epoch_end=kill), checkpoint_seconds=0)
    assert len(toy_run.history(tmp_path)) == 2
    counter = CountSteps()
    check_equals(whole, run, run.fit(tmp_path, counter), tmp_path)
    assert counter.steps == STEPS


@pytest.mark.slow
def test_a_new_model_and_optimizer_resume_too(run, whole, tmp_path):
    """Not the old objects put back: the moments do not exist yet when they are restored."""
    with pytest.raises(Killed):
        run.fit(tmp_path, KillAt(8), checkpoint_seconds=0)
    new = toy_run.Run()
    toys.randomise(new.student, seed=99)  # whatever it starts from
    assert not any("/m:0" in name for name in new.state())
    result = training.fit(new.distiller, new.train, epochs=EPOCHS, folder=tmp_path)
    check_equals(whole, new, result, tmp_path)


def test_a_moved_folder_resumes(run, whole, tmp_path):
    with pytest.raises(Killed):
        run.fit(tmp_path / "here", KillAt(7), checkpoint_seconds=0)
    os.rename(tmp_path / "here", tmp_path / "there")
    counter = CountSteps()
    check_equals(whole, run, run.fit(tmp_path / "there", counter), tmp_path / "there")
    assert counter.steps == STEPS * EPOCHS - 7


@pytest.mark.slow
def test_a_process_killed_by_the_system_resumes(run, whole, tmp_path):
    """SIGKILL at no particular moment of the second epoch."""
    tests = pathlib.Path(toy_run.__file__).parent
    command = [sys.executable, toy_run.__file__, str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        saved = (tmp_path / "run" / "checkpoints" / "last").glob("ckpt-*.index")
        if any(int(path.stem.split("-")[1]) > STEPS for path in saved):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    assert process.wait() == -signal.SIGKILL
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == toy_run.digest(whole[1])
    assert toy_run.history(tmp_path / "run") == whole[2]


# The best epoch, and stopping early.


class Scored:
    """Scores of the epochs by script, and the weights that each score was of."""

    def __init__(self, run, scores, kill_at):
        self.run, self.scores, self.kill_at, self.weights = run, scores, kill_at, {}

    def __call__(self):
        epoch = int(self.run.distiller.optimizer.iterations.numpy()) // STEPS
        if epoch == self.kill_at:
            raise Killed
        self.weights[epoch] = self.run.student.get_weights()
        return {"score": self.scores[epoch - 1], "other": -1.0}


def watched(run, folder, *extra, kill_at=None, scores=SCORES, **options):
    scored = Scored(run, scores, kill_at)
    options = {"epochs": len(scores), "monitor": "score", "patience": None, **options}
    options = {"checkpoint_seconds": 0, **options}
    return run.fit(folder, *extra, evaluate=scored, **options), scored.weights


def test_the_best_epoch_is_kept_and_training_stops_after_patience(run, tmp_path):
    result, weights = watched(run, tmp_path, patience=1)
    assert (result.steps, result.best_metric, result.best_epoch) == (3 * STEPS, 0.8, 2)
    toys.check_equal(run.student.get_weights(), weights[2])
    assert any((a != b).any() for a, b in zip(weights[2], weights[3], strict=True))
    rows = toy_run.history(tmp_path)
    assert [row["val_score"] for row in rows] == ["0.5", "0.8", "0.7"]
    assert list(rows[0])[-2:] == ["val_score", "val_other"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, None])
def test_a_callback_of_the_user_s_own_stops_a_fit_for_good(run, tmp_path, seconds):
    stop = keras.callbacks.EarlyStopping("val_score", patience=1, mode="max")
    result, _ = watched(run, tmp_path, stop, checkpoint_seconds=seconds)
    assert result.steps == 3 * STEPS  # the third epoch is worse than the second
    count = CountSteps()
    again, _ = watched(run, tmp_path, count)
    assert (again.steps, count.steps) == (3 * STEPS, 0)


def test_of_equal_epochs_the_one_with_the_lowest_loss_is_kept(run, tmp_path):
    result, weights = watched(run, tmp_path, scores=(0.5, 0.8, 0.8, 0.8, 0.7))
    losses = [float(row["loss"]) for row in toy_run.history(tmp_path)][1:4]
    lowest = 2 + int(np.argmin(losses))
    assert (result.best_metric, result.best_epoch) == (0.8, lowest) and lowest > 2
    toys.check_equal(run.student.get_weights(), weights[lowest])


@pytest.mark.slow
def test_patience_does_not_end_a_fit_before_its_least_steps(run, tmp_path):
    scores = (0.5, 0.4, 0.4, 0.3, 0.3, 0.9)
    result, _ = watched(run, tmp_path, scores=scores, patience=1, min_steps=3 * STEPS + 1)
    assert (result.steps, result.best_metric) == (4 * STEPS, 0.5)


@pytest.mark.slow
def test_best_and_patience_survive_a_resume(run, tmp_path, monkeypatch):
    _, weights = watched(run, tmp_path / "whole", patience=1)
    rows = toy_run.history(tmp_path / "whole")
    save_last = checkpoints.Checkpoints.save_last

    def killed_while_saving(step):
        """Killed after the best weights were saved, before the rest was."""

        def save(self, at):
            if at == step:
                raise Killed
            save_last(self, at)

        return save

    for name, kill in {
        "middle": {"extra": KillAt(13)},
        "evaluation": {"kill_at": 3},
        "saving_best": {"save": 2 * STEPS},
        "saving_last": {"save": 3 * STEPS},
        "before_a_checkpoint": {"extra": KillAt(13), "seconds": None},
    }.items():
        folder = tmp_path / name
        with monkeypatch.context() as patch, pytest.raises(Killed):
            if "save" in kill:
                patch.setattr(
                    checkpoints.Checkpoints, "save_last", killed_while_saving(kill["save"])
                )
            extra = [kill["extra"]] if "extra" in kill else []
            watched(
                *(run, folder, *extra),
                **{"patience": 1, "kill_at": kill.get("kill_at")},
                checkpoint_seconds=kill.get("seconds", 0),
            )
        result, _ = watched(run, folder, patience=1)
        assert (result.steps, result.best_metric, result.best_epoch) == (3 * STEPS, 0.8, 2), name
        toys.check_equal(run.student.get_weights(), weights[2])
        assert toy_run.history(folder) == rows, name
        # A fit that stopped early is finished: called again, it stays so.
        counter = CountSteps()
        again, _ = watched(run, folder, counter, patience=1)
        assert (again, counter.steps) == (result, 0)


def test_a_metric_that_nobody_computes_is_refused(run, tmp_path):
    with pytest.raises(errors.ConfigError, match="monitor"):
        run.fit(tmp_path, monitor="score")
    assert not files_of(tmp_path)
    with pytest.raises(errors.ConfigError, match="Did you mean 'score'"):
        watched(run, tmp_path, monitor="scor")


# What must not be lost.


def poisoned(run, step):
    """The same batches, but the example weights of one step of the first epoch are NaN."""
    encoded = toys.encoded(18, weights=True)
    encoded.weights[run.train.plan(0)[step - 1][0]] = np.nan
    return batches.Batches(encoded, batch_size=4, seed=3)


def test_a_nan_loss_stops_the_fit_and_keeps_the_last_good_checkpoint(run, whole, tmp_path):
    with pytest.raises(errors.NonFiniteLossError) as caught:
        run.fit(tmp_path, train=poisoned(run, 4), checkpoint_seconds=0)
    assert str(caught.value).startswith("step 4: expected finite losses, received NaN")
    assert "loss, label" in str(caught.value)
    counter = CountSteps()
    check_equals(whole, run, run.fit(tmp_path, counter), tmp_path)
    assert counter.steps == STEPS * EPOCHS - 3


@pytest.mark.usefixtures("second_a_step")
def test_weights_that_are_not_finite_are_never_saved(run, whole, tmp_path):
    """A gradient can be NaN although its loss is not; the loss shows it a step too late."""

    def overflow():
        bias = run.student.get_layer("classifier").bias
        if int(run.distiller.optimizer.iterations.numpy()) == 2 * STEPS:
            bias.assign([np.inf] * toys.NUM_LABELS)
        return {}

    with pytest.raises(errors.NonFiniteLossError, match=r"weights at step 10: .*classifier/bias"):
        run.fit(tmp_path, evaluate=overflow, checkpoint_seconds=STEPS)
    counter = CountSteps()
    check_equals(whole, run, run.fit(tmp_path, counter), tmp_path)
    assert counter.steps == STEPS * (EPOCHS - 1)


def no_room(save):
    """The real save on a file system that takes no file above a kilobyte."""

    def limited(*arguments, **options):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
        try:
            return save(*arguments, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


def out_of_quota(save):
    def refused(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return refused


@pytest.mark.slow
@pytest.mark.parametrize("fault", [no_room, out_of_quota])
@pytest.mark.parametrize("step", [3, 6])
@pytest.mark.usefixtures("second_a_step")
def test_a_full_disk_keeps_the_last_checkpoint(run, whole, tmp_path, monkeypatch, fault, step):
    save = tf.train.CheckpointManager.save

    def fails_at(manager, checkpoint_number):
        chosen = fault(save) if checkpoint_number == step else save
        return chosen(manager, checkpoint_number=checkpoint_number)

    with monkeypatch.context() as patch, pytest.raises(errors.WeightsError) as caught:
        patch.setattr(tf.train.CheckpointManager, "save", fails_at)
        run.fit(tmp_path, checkpoint_seconds=3)
    last = {3: "none yet", 6: "ckpt-3"}[step]
    assert f"checkpoint at step {step}: expected room to write in" in str(caught.value)
    assert last in str(caught.value)
    counter = CountSteps()
    check_equals(whole, run, run.fit(tmp_path, counter), tmp_path)
    assert counter.steps == STEPS * EPOCHS - {3: 0, 6: 3}[step]


def test_a_damaged_or_foreign_checkpoint_is_refused(run, tmp_path):
    run.fit(tmp_path, epochs=1)
    other = distillers.LabelTrainer(toys.classifier(toys.SHALLOW_STUDENT.replace(hidden_size=4)))
    other.compile(training.adamw(0.1))
    with pytest.raises(errors.WeightsError, match="one of this model and this recipe"):
        training.fit(other, run.train, epochs=1, folder=tmp_path)
    (data,) = (tmp_path / "checkpoints" / "last").glob("*.data-*")
    (index,) = (tmp_path / "checkpoints" / "last").glob("*.index")
    for path, content in (
        (data, data.read_bytes()[:1000]),
        (data, b""),
        (index, index.read_bytes()[:1000]),
        (index, b"\0" * 6000),
    ):
        whole = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(errors.WeightsError):
            run.fit(tmp_path)
        path.write_bytes(whole)
    data.unlink()
    with pytest.raises(errors.WeightsError, match="ckpt-5"):
        run.fit(tmp_path)


@pytest.mark.parametrize("entry", ["model_checkpoint_path", "all_model_checkpoint_paths"])
def test_a_foreign_checkpoint_neither_reads_nor_deletes_files_elsewhere(run, tmp_path, entry):
    folder, elsewhere = tmp_path / "fit" / "checkpoints" / "last", tmp_path / "precious"
    folder.mkdir(parents=True)
    (tmp_path / "precious.index").write_text("of another program")
    state = {"model_checkpoint_path": "ckpt-1", "all_model_checkpoint_paths": "ckpt-1"}
    state[entry] = str(elsewhere)
    lines = [f'{name}: "{value}"\n' for name, value in state.items()]
    (folder / "checkpoint").write_text("".join(lines))
    with pytest.raises(
        errors.WeightsError, match=r"names of files next to it, received '.*precious"
    ):
        run.fit(tmp_path / "fit")
    assert (tmp_path / "precious.index").read_text() == "of another program"


def test_fits_that_would_leave_steps_out_or_take_none_are_refused(run, tmp_path):
    # Its optimizer is past the first step: the fit would leave steps out without a word.
    run.fit(tmp_path / "first", epochs=1)
    with pytest.raises(errors.ConfigError, match="step 5"):
        training.fit(run.distiller, run.train, epochs=1, folder=tmp_path / "second")
    batches = toy_run.STEPS * toy_run.EPOCHS
    run = toy_run.Run(gradient_accumulation=batches + 1)
    with pytest.raises(errors.ConfigError, match=f"at most {batches}, .*no optimizer step"):
        training.fit(run.distiller, run.train, epochs=toy_run.EPOCHS, folder=tmp_path / "fit")
    assert not (tmp_path / "fit").exists()
