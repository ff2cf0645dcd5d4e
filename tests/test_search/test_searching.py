"""A whole search on a device that obeys a known law."""

import json

import numpy as np
import pytest
import simulated_device
from simulated_device import Phone, recipe, run

from tfdistill import config, errors, models, pruning, results
from tfdistill.benchmark import result as benchmark_result
from tfdistill.benchmark.settings import Settings
from tfdistill.search import measuring, result, shapes
from tfdistill.search.estimating import CostModel, Estimate, by_depth, front


def shape_of(proposal):
    return models.EncoderConfig(**proposal.config)


def test_every_proposal_keeps_the_budget_by_the_law_itself(finished):
    _, _, outcome = finished
    assert len(outcome.proposals) == 5
    for proposal in outcome.proposals:
        # Measured within the budget, with a noise of 0.01.
        assert simulated_device.true_latency(shape_of(proposal), 64) <= 3.1
        assert proposal.latency_ms <= 3.0 and proposal.size_bytes <= 60e6


def test_the_errors_are_those_of_students_that_no_fit_had_seen(tmp_path, finished):
    _, _, outcome = finished
    assert len(outcome.prediction_errors) >= 5
    assert 0 < np.median(outcome.prediction_errors) < 0.05  # noise of 0.01
    exact = run(tmp_path / "a", Phone())
    assert max(exact.prediction_errors) < 1e-6
    odd = exact.proposals[0].name
    wrong = run(tmp_path / "b", Phone(slow=(odd,)))
    assert max(wrong.prediction_errors) == pytest.approx(1 / 3, abs=1e-6)  # 1 - 1 / 1.5


def test_others_take_the_place_of_proposals_that_are_slower_than_predicted(tmp_path):
    exact = run(tmp_path / "a", Phone())
    first = {m.name for m in exact.measurements if m.role == "proposal"}
    phone = Phone(slow=first)
    outcome = run(tmp_path / "b", phone)
    assert phone.calls > 2 and set(outcome.over_budget) & first
    assert not {p.name for p in outcome.proposals} & set(outcome.over_budget)
    assert len(outcome.proposals) == 5
    assert all(p.latency_ms <= 3.0 for p in outcome.proposals)


def test_a_fit_takes_in_what_was_measured_of_the_best(tmp_path):
    outcome = run(tmp_path, Phone(noise=0.1))
    groups = [benchmark_result.read_result(path) for path in tmp_path.glob("*/proposals-*")]
    assert len(groups) > 1
    teacher, shape = simulated_device.TEACHER, outcome.measurements
    model = CostModel(shapes.candidates(teacher), 64, "sequence")
    names = [{file.name for file in group.models} for group in groups]
    anchors = {m.name: m for m in shape if m.role == "anchor"}
    by_anchors = {e.candidate.name: e.latency_ms for e in model.estimates(anchors)}
    same = [
        all(m.predicted_ms == by_anchors[m.name] for m in shape if m.name in group)
        for group in names
    ]
    assert same.count(True) == 1  # the first group, before there was another to learn from


def test_proposals_make_use_of_the_budget_and_differ_in_depth(finished):
    _, _, outcome = finished
    best = max(outcome.proposals, key=lambda p: p.capacity)
    assert outcome.proposals[0] == best and best.latency_ms > 0.7 * 3.0
    depths = [shape_of(proposal).num_layers for proposal in outcome.proposals]
    assert len(set(depths)) == len(depths)


def estimate(name, latency_ms, size_bytes, width, depth):
    shape = models.preset("bert_tiny").replace(num_layers=depth, intermediate_size=width)
    part = config.PrunedShape(layers=depth, ffn=width)
    return Estimate(shapes.Candidate(part, shape), latency_ms, size_bytes, False)


def test_the_front_leaves_out_what_another_beats_in_everything():
    best = estimate("a", 1.0, 100, 512, 4)
    slower, larger, poorer, shallower = (
        estimate("b", 1.1, 100, 512, 4),
        estimate("c", 1.0, 110, 512, 4),
        estimate("d", 1.0, 100, 256, 4),
        estimate("e", 1.0, 100, 512, 3),
    )
    faster = estimate("f", 0.5, 110, 256, 2)
    every = [best, slower, larger, poorer, shallower, faster]
    assert front(every) == [best, faster]


def test_the_richest_of_every_depth_comes_before_the_second_of_any():
    every = [estimate("", 1.0, 1, width, depth) for depth in (2, 3) for width in (64, 512, 256)]
    order = [(e.depth, e.candidate.config.intermediate_size) for e in by_depth(every)]
    assert order == [(3, 512), (2, 512), (3, 256), (2, 256), (3, 64), (2, 64)]


def test_every_recipe_is_valid_and_builds_the_student(finished):
    folder, _, outcome = finished
    for proposal in outcome.proposals:
        proposed = config.load_recipe(str(folder / proposal.recipe))
        part = config.parse_pruned(proposed.student.preset)
        assert pruning.pruned_config(simulated_device.TEACHER, part) == shape_of(proposal)
        assert proposed.export.lengths == (64,)
        assert proposed.export.quantize == "dynamic_wi8_afp32"


def test_a_recipe_says_where_it_comes_from_and_what_it_needs(finished):
    folder, _, outcome = finished
    text = (folder / outcome.proposals[0].recipe).read_text()
    header = [line for line in text.splitlines() if line.startswith("#")]
    assert f"{outcome.proposals[0].latency_ms:.2f} ms" in "".join(header)
    assert any("tfdistill recipes check" in line for line in header)
    assert not any(line.endswith(" ") for line in text.splitlines())


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_what_a_device_calls_itself_stays_in_the_comment(tmp_path, end):
    class Odd(Phone):
        def result(self, models, settings):
            measured = super().result(models, settings)
            device = measured.device.model_copy(update={"name": f"A phone{end}name: another"})
            return measured.model_copy(update={"device": device})

    (proposal,) = run(tmp_path, Odd(), count=1).proposals
    proposed = config.load_recipe(str(tmp_path / proposal.recipe))
    assert proposed.name == f"pruned_{proposal.name}_sst2"


def test_a_tighter_size_gives_smaller_files(tmp_path):
    outcome = run(tmp_path, Phone(), size_mb=10)
    assert outcome.proposals
    assert max(p.size_bytes for p in outcome.proposals) <= 10e6


def test_a_search_that_was_stopped_measures_nothing_twice(tmp_path):
    stopped = Phone(noise=0.01, fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stopped)
    assert not (tmp_path / "search.json").exists()
    before = set(stopped.measured)
    again = Phone(noise=0.01, seed=1)
    outcome = run(tmp_path, again)
    assert before and not before & set(again.measured)
    assert len(again.measured) == len(set(again.measured))
    assert {m.name for m in outcome.measurements} == before | set(again.measured)


def test_a_search_that_was_stopped_while_it_exported_keeps_the_files(tmp_path):
    class Stopped(Phone):
        def convert(self, candidate, path):
            if len(self.converted) == 3:
                raise KeyboardInterrupt
            super().convert(candidate, path)

    stopped, again = Stopped(), Phone()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stopped)
    outcome = run(tmp_path, again)
    assert len(stopped.converted) == 3 and not {*stopped.converted} & {*again.converted}
    assert {*stopped.converted} < {m.name for m in outcome.measurements}
    assert {path.suffix for path in (tmp_path / "measurements").iterdir()} == {".json"}


def test_other_options_share_no_measurement(tmp_path):
    first = Phone(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, first)
    second = Phone()
    run(tmp_path, second, recipe=recipe(threads=2))
    assert set(first.measured) < set(second.measured)


def test_files_of_another_head_share_no_measurement(tmp_path):
    phone, candidate = Phone(), shapes.candidates(models.preset("bert_base"))[0]
    for head in ("sequence", "token", "token"):
        bench = measuring.StudentBench(
            tmp_path, phone.measure, phone.convert, Settings(lengths=(64,)), "float32", head
        )
        bench.measure([candidate], "anchor")
    assert phone.converted == phone.measured == [candidate.name] * 2


def test_two_devices_are_not_mixed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Phone(fails_at=2))
    with pytest.raises(errors.BenchmarkError, match="all on one device"):
        run(tmp_path, Phone(device_id="ffffffffffff"))


def test_an_impossible_budget_names_the_fastest_and_the_smallest(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"fastest is 1l_128d\w+: 0\.\d+ ms.*smallest is"):
        run(tmp_path / "a", Phone(), latency_ms=0.01)
    assert not (tmp_path / "a" / "search.json").exists()
    with pytest.raises(errors.ConfigError, match=r"0\.5 MB\..*smallest is 1l_128d\w+: "):
        run(tmp_path / "b", Phone(), size_mb=0.5)


def test_a_proposal_that_breaks_the_budget_when_measured_is_left_out(tmp_path):
    dropped = run(tmp_path / "a", Phone()).proposals[0].name
    outcome = run(tmp_path / "b", Phone(slow=(dropped,)))
    assert outcome.over_budget == (dropped,)
    assert dropped not in {p.name for p in outcome.proposals}
    assert dropped in (tmp_path / "b" / "search.txt").read_text().splitlines()[-1]
    assert len(outcome.proposals) == 5  # another took its place
    assert not list((tmp_path / "b" / "recipes").glob(f"{dropped}*"))


def test_a_busy_device_is_named_beside_the_measured_latencies(tmp_path):
    outcome = run(tmp_path, Phone(busy=True), count=2)
    assert {measured.busy_lengths for measured in outcome.measurements} == {(64,)}
    lines = (tmp_path / "search.txt").read_text().splitlines()
    rows = [next(line for line in lines if p.name in line) for p in outcome.proposals]
    assert rows and all("(busy machine)" in row for row in rows)


def test_every_length_keeps_the_budget(tmp_path):
    outcome = run(tmp_path, Phone(), recipe=recipe(lengths=(32, 64)))
    for measured in outcome.measurements:
        if measured.role == "proposal":
            assert measured.predicted_ms == pytest.approx(measured.p50_ms[64])
            assert max(measured.p50_ms.values()) <= 3.0
    proposed = config.load_recipe(str(tmp_path / outcome.proposals[0].recipe))
    assert proposed.export.lengths == (32, 64) and proposed.data.max_length == 64


def test_the_result_reads_back_and_the_table_shows_it(finished):
    folder, _, outcome = finished
    written = json.loads((folder / "search.json").read_text())
    assert written.pop("checksum").startswith("sha256:")
    assert result.SearchResult.model_validate(written) == outcome
    text = (folder / "search.txt").read_text()
    for proposal in outcome.proposals:
        assert proposal.name in text and f"{proposal.latency_ms:.2f}" in text
    assert f"median error {np.median(outcome.prediction_errors):.1%}" in text
    assert "Accuracy is not predicted" in text


def test_an_earlier_result_is_kept_unless_told_otherwise(tmp_path):
    folder = tmp_path / "a"
    run(folder, Phone(), count=1)
    with pytest.raises(errors.OutputExistsError, match="--overwrite"):
        run(folder, Phone())
    again = Phone()
    run(folder, again, count=2, overwrite=True)
    assert len(list((folder / "recipes").iterdir())) == 2 and again.calls == 2
    other = tmp_path / "b"
    other.mkdir()
    (other / "search.json").write_text("{}")
    with pytest.raises(errors.OutputExistsError, match=r"other files: search\.json"):
        run(other, Phone(), overwrite=True)
    assert (other / "search.json").read_text() == "{}"


def test_a_failed_measurement_is_explained_with_its_reason(tmp_path):
    class Broken(Phone):
        def result(self, models, settings):
            measured = super().result(models, settings)
            if self.calls == 1:
                return measured
            failure = benchmark_result.schema.Failure(what="2l", error="the device was unplugged")
            return measured.model_copy(update={"summary": (), "failures": (failure,)})

    with pytest.raises(errors.BenchmarkError, match=r"was unplugged(?s:.)*continues from there"):
        run(tmp_path, Broken())


def test_a_device_that_is_gone_says_that_what_was_measured_is_kept(tmp_path):
    class Lost(Phone):
        lost_behind = 1

        def measure(self, models, settings):
            if self.calls == self.lost_behind:
                raise errors.DeviceLostError("the cable")
            return super().measure(models, settings)

    phone = Lost()
    with pytest.raises(errors.DeviceLostError, match=r"^the cable\n.*continues from there"):
        run(tmp_path / "a", phone)
    phone.calls = phone.lost_behind
    with pytest.raises(errors.DeviceLostError, match=r"^the cable$"):  # nothing is kept yet
        run(tmp_path / "b", phone)


@pytest.mark.parametrize(
    "options, fault",
    [
        ({"latency_ms": 0}, "latency_ms: expected more than 0"),
        ({"latency_ms": float("nan")}, "latency_ms: expected more than 0"),
        ({"size_mb": -1}, "size_mb: expected more than 0"),
        ({"count": 0}, "count: expected at least 1"),
        ({"recipe": recipe(lengths=(2, 64))}, "export.lengths: expected"),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(tmp_path, options, fault):
    phone = Phone()
    with pytest.raises(errors.ConfigError, match=fault):
        run(tmp_path, phone, **options)
    assert phone.calls == 0


def test_the_folder_holds_what_the_manual_says(finished):
    folder, phone, _ = finished
    assert {path.name for path in folder.glob("[!.]*")} == {
        *("search.json", "search.txt", "recipes", "measurements"),
    }
    groups = [benchmark_result.read_result(p) for p in (folder / "measurements").iterdir()]
    names = [model.name for group in groups for model in group.models]
    assert sorted(names) == sorted(phone.measured)


def test_the_teacher_is_measured_like_the_students(finished):
    _, _, outcome = finished
    whole = outcome.measurements[0]
    truth = simulated_device.true_latency(simulated_device.TEACHER, 64)
    assert whole.p50_ms[64] == pytest.approx(truth, rel=0.05)


@pytest.mark.slow
def test_files_with_random_weights_take_the_lengths_and_the_quantization(tmp_path):
    from tfdistill import manifest

    shape = models.preset("bert_tiny").replace(vocab_size=60, num_layers=1)
    candidate = shapes.Candidate(config.PrunedShape(layers=1), shape)
    path = tmp_path / "model.tflite"
    measuring.converter("dynamic_wi8_afp32", (8,), "sequence")(candidate, path)
    assert path.stat().st_size > 60 * 128
    assert not (tmp_path / manifest.FILE_NAME).exists()  # only the file is measured


# A search that distils its proposals a little.


class Distil:
    """Metrics that fall with the width; the `equal` best are within chance of each other."""

    def __init__(self, phone, equal=1):
        self.phone, self.equal, self.calls = phone, equal, []

    def __call__(self, students):
        self.calls.append((dict(students), self.phone.calls))
        reached = {name: 0.7 + int(name.split("_")[1][:-1]) / 5000 for name in students}
        order = sorted(reached, key=lambda name: -reached[name])
        rows = (
            results.BaselineResult(name="majority", metrics={"accuracy": 0.2}, parameters=6),
            results.BaselineResult(name="tfidf", metrics={"accuracy": 0.72}, parameters=50_000),
        )
        figures = results.CandidateMetrics(
            task="sst2",
            metric="accuracy",
            num_examples=500,
            teacher=0.93,
            baselines=rows,
            students=reached,
            within_chance=tuple(order[: self.equal]),
        )
        return result.ShortDistillation(updates=60, figures=figures)


@pytest.fixture(scope="module")
def distilled(tmp_path_factory):
    folder, phone = tmp_path_factory.mktemp("distilled"), Phone(noise=0.01)
    distil = Distil(phone, equal=3)
    return folder, distil, run(folder, phone, distil=distil)


def test_the_teacher_is_tried_first_and_then_every_proposal_by_its_short_form(distilled):
    _, distil, outcome = distilled
    (nobody, calls), (students, _) = distil.calls
    assert (nobody, calls) == ({}, 0)  # before anything was measured
    assert students == {proposal.name: proposal.preset for proposal in outcome.proposals}


def test_proposals_are_ranked_by_what_they_reach_and_the_fastest_of_equals_is_chosen(distilled):
    folder, _, outcome = distilled
    metrics = [proposal.metric for proposal in outcome.proposals]
    assert metrics == sorted(metrics, reverse=True)
    equal = [p for p in outcome.proposals if p.name in outcome.distillation.figures.within_chance]
    assert len(equal) == 3
    assert outcome.chosen.latency_ms == min(proposal.latency_ms for proposal in equal)
    assert (
        f"# After 60 updates: accuracy {metrics[0]:.4f} (its teacher: 0.9300)."
        in (folder / outcome.proposals[0].recipe).read_text()
    )
    text = (folder / "search.txt").read_text()
    assert f"fastest within chance of the best: {outcome.chosen.name}" in text
    assert "teacher: 0.9300, " in text
    assert "tfidf: 0.7200" in text and f"{metrics[-1]:.4f}" in text
    written = json.loads((folder / "search.json").read_text())
    assert written.pop("checksum").startswith("sha256:")
    assert result.SearchResult.model_validate(written) == outcome
