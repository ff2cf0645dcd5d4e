"""The benchmarks count, sample and report what they say; how fast anything is, is no test."""

import importlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import numpy as np
import pytest

from tfdistill import errors

ROOT = pathlib.Path(__file__).parents[2]
BENCHMARKS = ROOT / "scripts" / "benchmarks"
UNRECORDED = ("quickstart",)  # of an earlier checkout
OF_OTHERS = ("converter_routes", "export_faults", "promises")  # not of scripts/bench
RECORDS = [
    path
    for path in sorted((ROOT / "docs" / "benchmarks").glob("*.json"))
    if path.stem not in OF_OTHERS
]


@pytest.fixture
def load(monkeypatch):
    """Imports a module of scripts/benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(BENCHMARKS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_every_task_has_its_turn_in_every_round_and_warm_up_is_not_timed(load):
    calls = []
    tasks = {name: lambda name=name: calls.append(name) for name in "abc"}

    samples = load("turns").take_turns(tasks, rounds=4, warmup=2)

    assert {name: len(seconds) for name, seconds in samples["seconds"].items()} == {
        "a": 4, "b": 4, "c": 4,
    }  # fmt: skip
    rounds = [calls[i : i + 3] for i in range(0, len(calls), 3)]
    assert len(rounds) == 6 and all(sorted(turn) == list("abc") for turn in rounds)
    assert len({tuple(turn) for turn in rounds}) > 1  # the order is drawn
    assert len(samples["others_share"]) == 4


def test_another_loss_than_ours_is_not_timed(load):
    training = load("training")
    training._check({"float32": {"tfdistill": 2.0, "pytorch": 2.00001}})

    with pytest.raises(errors.TfdistillError, match="expected 2, received"):
        training._check({"float32": {"tfdistill": 2.0, "pytorch": 2.01}})


def test_a_record_is_not_replaced_unless_asked_for(tmp_path):
    (tmp_path / "training.json").write_text("{}")

    done = bench("all", "--quick", "--out", str(tmp_path))

    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert (tmp_path / "training.json").read_text() == "{}"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["training", "inference", "tagging"])
def test_a_benchmark_runs_and_records(kind, tmp_path):
    done = bench(kind, "--quick", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    value = json.loads((tmp_path / f"{kind}.json").read_text())
    assert value["kind"] == kind and value["quick"]
    assert all(figure["value"] > 0 for figure in value["figures"])
    assert all(figure["name"] in done.stdout for figure in value["figures"])


@pytest.mark.slow
@pytest.mark.thorough
def test_a_tree_trains_the_same_student_as_itself(tmp_path):
    done = bench("quickstart", "--quick", "--before", str(ROOT), "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    value = json.loads((tmp_path / "quickstart.json").read_text())
    told = {value["details"][f"{kind}, weights of the students"] for kind in ("rows", "pairs")}
    assert told == {"equal"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--torch",)], ids=["without PyTorch", "with PyTorch"])
def test_the_peers_run_the_same_network_and_are_recorded(load, tmp_path, options):
    environments = load("peer_environments")
    used = [environments.PEERS, environments.TORCH][: 1 + len(options)]
    if not all(one.is_installed() for one in used):
        pytest.skip(f"scripts/bench peers {' '.join(options)} has not installed the other runtimes")

    done = bench("peers", "--quick", "--out", str(tmp_path), *options)

    assert done.returncode == 0, done.stderr
    value = json.loads((tmp_path / "peers.json").read_text())
    distances = value["samples"]["relative_distance_from_the_model"]
    assert distances["onnxruntime float32, 16 tokens"] < 1e-5  # measured: 4e-7
    assert all(distance < 0.5 for distance in distances.values())
    others = [name for one in used for name in one.contestants]
    assert {f"{name}, 16 tokens" for name in others} < set(distances)
    targets = {f["name"]: f["target"] for f in value["figures"] if f["target"] is not None}
    assert targets == {
        "faster than onnxruntime int8 at 16 tokens": 1.6,
        "faster than openvino at 16 tokens": 1.5,
    }
    assert set(value["settings"]["packages"]) == {one.name for one in used}


def test_another_network_is_no_peer(load):
    """A float32 answer that is off, or a quantized one that has nothing to do with the model's."""
    from tfdistill import errors, models

    peers = load("peers")
    shape = models.preset("bert_tiny").replace(vocab_size=50, num_layers=1, hidden_size=8)
    model = models.build_classifier(shape.replace(intermediate_size=8), 2)
    random = np.random.default_rng(0)
    model.set_weights([w + random.normal(0, 0.3, w.shape) for w in model.get_weights()])
    examples = peers._examples(model, 8)
    features = {name: np.array([row[name] for row in examples]) for name in examples[0]}
    right = model(features, training=False).numpy()

    peer_errors = peers._check(model, examples, {"a float32": right, "b int8": right * 1.1}, 8)

    assert peer_errors["a float32, 8 tokens"] == 0
    assert peer_errors["b int8, 8 tokens"] == pytest.approx(0.1, rel=1e-3)
    for name, wrong in (("a float32", right * 1.01), ("b int8", np.zeros_like(right))):
        with pytest.raises(errors.TfdistillError, match=f"{name} at 8 tokens"):
            peers._check(model, examples, {name: wrong}, 8)


def test_the_turns_of_the_peers_are_ratios_of_processor_time(load):
    peers = load("peers")
    ours = {"clock": [[9.0, 2.0], [2.0, 2.0]], "processor": [[1.0, 1.0], [1.0, 1.0]]}
    other = {"clock": [[8.0, 8.0], [8.0, 99.0]], "processor": [[3.0, 3.0], [3.0, 3.0]]}
    samples = {"32": {peers._OURS: ours, "openvino": other}}
    samples["128"] = samples["32"]

    long, short = peers._figures(samples)

    assert long.name == "faster than openvino at 128 tokens"
    assert (long.value, long.target, short.target) == (3.0, 1.5, None)
    assert "3.00 to 3.00" in long.note and "by the clock 4.00x" in long.note


def test_there_is_a_record_of_every_benchmark():
    (listed,) = set(re.findall(r"\{(.+?),all\}", bench("--help").stdout))
    kinds = listed.split(",")
    assert sorted([*(path.stem for path in RECORDS), *UNRECORDED]) == sorted(kinds)
    rows = re.findall(r"^\| `(\w+)\.json` \|", (RECORDS[0].parent / "README.md").read_text(), re.M)
    assert sorted(rows) == sorted(kinds)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_of_its_benchmark_and_names_no_folder_of_a_machine(path):
    value = json.loads(path.read_text())
    assert value["kind"] == path.stem and value["command"][:2] == ["scripts/bench", path.stem]
    assert not [part for part in value["command"] if os.path.isabs(part)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_figures_of_a_record_follow_from_its_samples(path):
    value = json.loads(path.read_text())
    samples, settings = value["samples"], value["settings"]

    def median(seconds: list[float]) -> float:
        return statistics.median(seconds)

    if value["kind"] == "training":
        seconds = {name: median(s) for name, s in samples["seconds"].items()}
        operations = settings["batch_size"] * settings["flops_per_example"]
        products = settings["matrix_products"] * 2 * settings["matrix_side"] ** 3
        peak = products / seconds["matmul"]
        expected = [
            operations / seconds["float32"] / peak,
            seconds["float32"] / seconds["bfloat16"],
        ]
    elif value["kind"] == "peers":
        ratios = {}
        for length, contestants in samples["milliseconds"].items():
            p50 = {
                name: median([value for turn in taken["processor"] for value in turn])
                for name, taken in contestants.items()
            }
            ours = p50["litert dynamic_wi8_afp32"]
            ratios |= {f"faster than {name} at {length} tokens": p50[name] / ours for name in p50}
        expected = [ratios[figure["name"]] for figure in value["figures"]]
    elif value["kind"] == "tagging":
        busy = {name: median(taken) for name, taken in samples["processor_seconds"].items()}
        sizes = [(16, 16), (64, 64), (128, 128), (1000, 128)]
        expected = [
            busy[f"classifier, {one} words"] / one / (busy[f"tagger, {words} words"] / words)
            for words, one in sizes
        ]
    else:
        taken: dict[tuple[str, int], list[float]] = {}
        for row in samples["measurements"]:
            taken.setdefault((row["model"], row["sequence_length"]), []).extend(row["samples_ms"])
        p50 = {key: median(values) for key, values in taken.items()}
        teacher, student = (model["name"] for model in samples["models"])
        longest = p50[student, 128]
        expected = [
            p50[teacher, 128] / longest,
            longest / p50[student, 32],
            longest / p50[student, 64],
        ]

    assert not value["quick"]
    assert [figure["value"] for figure in value["figures"]] == pytest.approx(expected)
    for figure in value["figures"]:
        if figure["target"] is not None:
            assert figure["reached"] == (figure["value"] >= figure["target"])
