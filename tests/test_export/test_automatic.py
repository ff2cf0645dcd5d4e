"""auto: the best file within the drop, found by figures of the files; nothing where none is."""

import shutil

import pytest

import export
from export.trials import trial
from tfdistill import errors
from tfdistill.results import Trial
from tfdistill.run import deliver

# Bytes of each file as the tests pretend it to be; the toy's weights take 101 KB in float32.
SIZES = {
    "float32": 130_000,
    "float16": 70_000,
    "weight_only_wi8_afp32": 41_000,
    "dynamic_wi8_afp32": 40_000,
    "static_wi8_ai8": 39_900,
    "dynamic_wi4_afp32": 24_000,
}
NAMES = tuple(SIZES)


class Attempts:
    """Stands in for `attempt`: verdicts and drops by name, the files those of a real export."""

    def __init__(self, source):
        self.source = source
        self.tried = []
        self.beyond = set()
        self.impossible = set()
        self.drops = {}

    def __call__(self, request, *, measure, **_):
        name, layers, file = request.quantize, request.layers, request.path
        self.tried.append((name, tuple(layers)))
        figures = Trial(
            name=name,
            layers=layers,
            verdict="good",
            size_bytes=SIZES[name],
            p50_ms={} if measure is None else measure(name),
            model_metrics={"accuracy": 0.9},
            file_metrics={"accuracy": 0.9 - self.drops.get(name, 0.0)},
            primary_metric="accuracy",
        )
        if name in self.impossible:
            why = "needs calibrate_on"
            return Trial(name=name, layers=layers, verdict="impossible", why=why)
        if name in self.beyond:
            return figures.model_copy(update={"verdict": "beyond bounds", "why": "far\noff"})
        for source in self.source.parent.iterdir():
            if source.name != "model.json" or not (file.parent / "model.json").exists():
                shutil.copy(source, file.parent)
        return figures


@pytest.fixture
def attempts(exported, monkeypatch):
    stub = Attempts(exported("dynamic_wi8_afp32").path)
    monkeypatch.setattr(trial, "attempt", stub)
    return stub


@pytest.fixture
def chosen(attempts, toy, tmp_path):
    """Runs auto; returns the name of the trial whose file was taken."""

    def choose(**arguments):
        told = []
        best = []

        def deliver(trials, file):
            best.append(told[int(file.parent.name)])
            return whole(trials, file)

        whole = trial.Trials.deliver
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trial.Trials, "deliver", deliver)
            arguments = {"names": NAMES, **arguments}
            export.auto(toy.model, tmp_path / "model.tflite", report=told.append, **arguments)
        return best[0].name, best[0].layers

    return choose


SMALLEST, NEXT = "dynamic_wi4_afp32", "dynamic_wi8_afp32"
CHOICES = {
    "the smallest is good": ({}, {}, [SMALLEST]),
    "the metric falls too far": (
        {"max_drop": 0.01}, {SMALLEST: 0.011}, [SMALLEST, NEXT],
    ),
    # 0.9 - (0.9 - 0.01) is a little more than 0.01.
    "the metric falls by max_drop": ({"max_drop": 0.01}, {SMALLEST: 0.01}, [SMALLEST]),
    "short names": ({"names": ("float16", "int4", "dynamic_wi4_afp32")}, {}, [SMALLEST]),
    "static is a few bytes smaller, but not plainest": (
        {"names": ("static_wi8_ai8", "weight_only_wi8_afp32", NEXT, "float32")}, {}, [NEXT],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "drops", "tried"), CHOICES.values(), ids=CHOICES)
def test_from_the_smallest_on_the_first_good_one_is_taken(options, drops, tried, chosen, attempts):
    attempts.drops = drops
    assert chosen(**options) == (tried[-1], {})
    assert attempts.tried == [(name, ()) for name in tried]


def test_the_fastest_of_all_is_taken_where_latency_counts(chosen, attempts):
    p50 = {name: {8: 2.0, 16: 8.0} for name in NAMES}
    p50["float16"] = {8: 1.0, 16: 9.0}  # a smaller geometric mean, a larger sum of the others
    p50["dynamic_wi4_afp32"] = {8: 0.1, 16: 0.1}
    attempts.drops = {"dynamic_wi4_afp32": 0.1}

    assert chosen(prefer="latency", measure=p50.get) == ("float16", {})
    assert {name for name, _ in attempts.tried} == set(NAMES)


def test_what_is_beyond_its_bounds_is_passed_over(chosen, attempts):
    attempts.beyond = {"float16", "dynamic_wi8_afp32"}

    assert chosen(names=("dynamic_wi8_afp32", "float16", "float32")) == ("float32", {})
    assert [name for name, _ in attempts.tried] == ["dynamic_wi8_afp32", "float16", "float32"]


def test_where_nothing_is_good_enough_nothing_is_written_and_every_trial_is_told(
    attempts, toy, tmp_path
):
    attempts.beyond = {"dynamic_wi8_afp32"}
    attempts.drops = {"float16": 0.25}
    attempts.impossible = {"static_wi8_ai8"}
    path = tmp_path / "out" / "model.tflite"
    with pytest.raises(errors.ParityError) as raised:
        export.auto(toy.model, path, names=("dynamic_wi8_afp32", "static_wi8_ai8", "float16"))
    told = (
        *("a drop of at most 0.01", "nothing was written", "dynamic_wi8_afp32: far off"),
        *("float16: accuracy falls by 0.25", "static_wi8_ai8: needs calibrate_on"),
    )
    assert [part for part in told if part not in str(raised.value)] == []
    with pytest.raises(errors.ConfigError, match="needs calibrate_on"):  # nothing is possible
        export.auto(toy.model, path, names=["static_wi8_ai8"])
    assert not (tmp_path / "out").exists()


def test_an_existing_file_is_refused_before_the_first_trial(attempts, toy, tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"old")
    with pytest.raises(errors.OutputExistsError, match=r"model.tflite"):
        export.auto(toy.model, tmp_path / "model.tflite", names=NAMES)
    assert attempts.tried == []
    assert (tmp_path / "model.tflite").read_bytes() == b"old"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"max_drop": -0.1}, "max_drop: expected a drop from 0 to 1"),
        ({"prefer": "speed"}, "prefer: expected 'size' or 'latency'"),
        ({"prefer": "latency"}, r"Pass measure=tfdistill.benchmark.quick_benchmark"),
        ({"names": []}, "names: expected at least one"),
        ({"names": ["float61"]}, "Did you mean 'float16'"),
    ],
)
def test_arguments_are_checked_before_the_first_trial(attempts, toy, tmp_path, arguments, message):
    with pytest.raises(errors.ConfigError, match=message):
        export.auto(toy.model, tmp_path / "model.tflite", **arguments)
    assert attempts.tried == []


@pytest.mark.parametrize(
    ("file", "told"),
    [(0.8, "falls by 0.0500"), (0.8501, "rises by 0.0001"), (0.85000001, "unchanged")],
)
def test_a_trial_says_how_its_metric_differs_from_the_models(file, told, caplog):
    metrics = {"model_metrics": {"pearson": 0.85}, "file_metrics": {"pearson": file}}
    with caplog.at_level("INFO"):
        deliver.tell_trial(Trial(name="int8", verdict="good", primary_metric="pearson", **metrics))
    assert caplog.messages == [f"int8: pearson {told}, good"]
