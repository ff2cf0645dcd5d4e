"""A whole search on a device that obeys a known law."""

import json
import pathlib

import numpy as np
import pytest
import simulated_device
from simulated_device import Phone, goal, run

from tfdistill import config, errors, models
from tfdistill.benchmark.settings import Settings
from tfdistill.search import recipes, result, space


def test_every_proposal_keeps_the_budget_by_the_law_itself(finished):
    _, _, found = finished
    assert len(found.proposals) == 5
    for proposal in found.proposals:
        shape = space_shape(proposal)
        assert simulated_device.true_latency(shape, 64) <= 3.0
        assert proposal.measured_size_bytes <= 45e6
        assert proposal.interval_ms[1] <= 3.0


def test_predictions_are_as_good_as_the_result_says(finished):
    _, _, found = finished
    (model,) = found.models
    assert model.held_out.n == 5
    truth = [simulated_device.true_latency(space_shape(p), 64) for p in found.proposals]
    apart = [abs(p.latency_ms / t - 1) for p, t in zip(found.proposals, truth, strict=True)]
    assert np.median(apart) < 0.02  # noise of 0.01
    assert model.held_out.median < 0.03
    held = [m for m in found.measurements if m.role == "held_out"]
    errs = [abs(m.predicted_ms[64] / m.p50_ms[64] - 1) for m in held]
    # The anchor's own noise is between the two.
    assert np.median(errs) == pytest.approx(model.held_out.median, abs=0.03)


def test_the_held_out_students_are_not_among_those_fitted_to(finished):
    _, _, found = finished
    by_role = {}
    for measured in found.measurements:
        by_role.setdefault(measured.role, set()).add(measured.name)
    assert by_role["held_out"] and not by_role["held_out"] & by_role["block"]


def test_proposals_make_use_of_the_budget_and_none_dominates_another(finished):
    _, _, found = finished
    best = max(found.proposals, key=lambda p: p.capacity)
    assert found.proposals[0] == best
    assert best.latency_ms > 0.8 * 3.0
    for one in found.proposals:
        for other in found.proposals:
            better = (one.latency_ms, one.size_bytes) < (other.latency_ms, other.size_bytes)
            deeper = space_shape(one).num_layers >= space_shape(other).num_layers
            if one.kind == other.kind and deeper and one.size_bytes <= other.size_bytes:
                assert not (better and one.capacity > other.capacity)


@pytest.mark.parametrize("method", space.METHODS)
def test_every_recipe_is_valid_and_builds_the_student(method, tmp_path):
    found = run(tmp_path, Phone(), method=method, count=4)
    assert len(found.proposals) == 4
    for proposal in found.proposals:
        recipe = config.load_recipe(str(tmp_path / proposal.recipe))
        assert recipes.shape_of(recipe.student, 30522, goal(method).teacher) == space_shape(
            proposal
        )
        assert recipe.export.lengths == (64,)
        assert recipe.export.quantize == "dynamic_wi8_afp32"
        scaled = config.scaled_down(recipe)
        assert config.missing_inputs(scaled) == []
        assert scaled.student.hidden_act == recipe.student.hidden_act


def test_a_recipe_says_where_it_comes_from_and_what_it_needs(finished):
    folder, _, found = finished
    text = (folder / found.proposals[0].recipe).read_text()
    header = [line for line in text.splitlines() if line.startswith("#")]
    assert f"measured {found.proposals[0].measured_ms:.2f} ms" in "".join(header)
    assert any("data.dir: the task's files" in line for line in header)
    assert any("stages.general.corpus: plain text" in line for line in header)
    assert not any(line.endswith(" ") for line in text.splitlines())


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_what_a_device_calls_itself_stays_in_the_comment(tmp_path, end):
    class Odd(Phone):
        def result(self, models, settings):
            found = super().result(models, settings)
            device = found.device.model_copy(update={"name": f"A phone{end}name: another"})
            return found.model_copy(update={"device": device})

    found = run(tmp_path, Odd(), count=1)
    recipe = config.load_recipe(str(tmp_path / found.proposals[0].recipe))
    assert recipe.name == f"tinybert_{found.proposals[0].name}_sst2"


def test_kinds_all_have_their_place(tmp_path):
    found = run(tmp_path, Phone(), method="logits", count=8)
    assert {p.kind for p in found.proposals} == set(space.METHOD_KINDS["logits"])


def test_a_tighter_size_gives_smaller_files(tmp_path):
    found = run(tmp_path, Phone(), size_mb=6)
    assert found.proposals
    assert max(p.measured_size_bytes for p in found.proposals) <= 6e6


def test_a_search_that_was_stopped_measures_nothing_twice(tmp_path):
    stopped = Phone(noise=0.01, fails_at=5)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stopped)
    assert not (tmp_path / "search.json").exists()
    known = set(stopped.measured)
    assert len(known) == 12  # the anchor, then all blocks; the first students were lost

    again = Phone(noise=0.01, seed=1)
    found = run(tmp_path, again)
    assert not known & set(again.measured)
    assert len(again.measured) == len(set(again.measured))
    assert {m.name for m in found.measurements} == known | set(again.measured)


def test_another_budget_on_the_same_device_measures_no_block_again(tmp_path):
    first, second = Phone(), Phone()
    run(tmp_path / "a", first, measurements=tmp_path / "known")
    found = run(tmp_path / "b", second, latency_ms=1.0, measurements=tmp_path / "known")
    blocks = {m.name for m in found.measurements if m.role == "block"}
    assert len(blocks & set(first.measured)) >= 12
    assert not set(first.measured) & set(second.measured)


def test_another_order_of_measuring_measures_nothing_again(tmp_path):
    first, second = Phone(), Phone()
    run(tmp_path / "a", first, measurements=tmp_path / "known", settings=Settings(seed=0))
    run(tmp_path / "b", second, measurements=tmp_path / "known", settings=Settings(seed=1))
    assert first.measured and not second.measured


def test_another_device_shares_nothing(tmp_path):
    first, second = Phone(), Phone(device_id="ffffffffffff")
    run(tmp_path / "a", first, measurements=tmp_path / "known")
    run(tmp_path / "b", second, measurements=tmp_path / "known")
    assert set(first.measured) == set(second.measured)


def test_an_impossible_latency_names_the_fastest_and_the_smallest(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"fastest is 2l_96d\w+: 0\.\d+ ms.*smallest is"):
        run(tmp_path, Phone(), latency_ms=0.01)
    assert not (tmp_path / "search.json").exists()


def test_an_impossible_size_names_the_smallest(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"0\.5 MB\..*smallest is 2l_96d_12h_192f\w+: 3"):
        run(tmp_path, Phone(), size_mb=0.5)


def test_a_proposal_that_breaks_the_budget_when_measured_is_left_out(tmp_path):
    first = run(tmp_path / "a", Phone())
    dropped = first.proposals[0].name
    found = run(tmp_path / "b", Phone(slow=(dropped,)))
    assert found.over_budget == (dropped,)
    assert dropped not in {p.name for p in found.proposals}
    assert any(dropped in warning for warning in found.warnings)
    assert len(found.proposals) == 5  # another took its place
    assert not list((tmp_path / "b" / "recipes").glob(f"{dropped}*"))


def test_a_law_that_the_features_do_not_know_is_reported(tmp_path):
    phone = Phone(noise=0.4)
    found = run(tmp_path, phone, latency_ms=10)
    assert found.models[0].held_out.median > 0.1
    assert any("trust the measured column" in warning for warning in found.warnings)
    assert any("same file took up to" in warning for warning in found.warnings)


def test_a_device_that_slows_down_between_batches_is_seen_through(tmp_path):
    class Moody(Phone):
        def result(self, models, settings):
            found = super().result(models, settings)
            mood = 1.0 + 0.5 * (self.calls % 2)
            cells = [
                simulated_device.summary(c.model, c.sequence_length, c.p50_ms * mood)
                for c in found.summary
            ]
            return found.model_copy(update={"summary": tuple(cells)})

    found = run(tmp_path, Moody(), latency_ms=4)
    (model,) = found.models
    assert model.held_out.worst < 1e-6
    assert model.anchor_spread == pytest.approx(0.5)


def test_several_lengths_are_predicted_apart_and_the_longest_keeps_the_budget(tmp_path):
    found = run(tmp_path, Phone(), goal=simulated_device.goal(lengths=(32, 64)))
    assert [m.sequence_length for m in found.models] == [32, 64]
    for measured in found.measurements:
        for length in (32, 64):
            assert measured.predicted_ms[length] == pytest.approx(measured.p50_ms[length])
    recipe = config.load_recipe(str(tmp_path / found.proposals[0].recipe))
    assert recipe.export.lengths == (32, 64) and recipe.data.max_length == 64


def test_the_result_reads_back_and_the_table_shows_it(finished):
    folder, _, found = finished
    read = result.read_result(folder)
    assert read.model_dump(mode="json") == found.model_dump(mode="json")
    text = (folder / "search.txt").read_text()
    for proposal in found.proposals:
        assert proposal.name in text and f"{proposal.measured_ms:.2f}" in text
    assert f"median error {found.models[0].held_out.median:.1%}" in text
    assert "Accuracy is not predicted" in text


def test_an_earlier_result_is_kept_unless_told_otherwise(finished, tmp_path):
    folder, _, _ = finished
    with pytest.raises(errors.OutputExistsError, match="--overwrite"):
        run(folder, Phone())
    copy = tmp_path / "search"
    copy.mkdir()
    (copy / "search.json").write_text("{}")
    with pytest.raises(errors.OutputExistsError, match=r"other files: search\.json"):
        run(copy, Phone(), overwrite=True)
    assert (copy / "search.json").read_text() == "{}"


def test_a_damaged_measurement_says_what_to_delete(tmp_path):
    stopped = Phone(fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stopped)
    first, *_ = (tmp_path / "measurements").iterdir()
    first.write_text(first.read_text()[:40])
    with pytest.raises(errors.BenchmarkError, match=rf"{first.name}.*Delete the file"):
        run(tmp_path, Phone())


def test_a_failed_measurement_is_explained_with_its_reason(tmp_path):
    class Broken(Phone):
        def result(self, models, settings):
            from tfdistill.benchmark import schema

            found = super().result(models, settings)
            lost = [c for c in found.summary if c.model == "anchor"]
            failure = schema.Failure(what="2l", error="the device was unplugged")
            return found.model_copy(update={"summary": tuple(lost), "failures": (failure,)})

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
        ({"head": "tail"}, "head: expected one of"),
        ({"goal": simulated_device.goal(lengths=(2,))}, "lengths: expected"),
        ({"goal": simulated_device.goal(lengths=(64, 64))}, "lengths: expected different"),
        ({"goal": simulated_device.goal(threads=0)}, "threads: expected at least 1"),
        ({"kinds": ("nonsense",)}, "kinds for tinybert"),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(tmp_path, options, fault):
    phone = Phone()
    with pytest.raises(errors.ConfigError, match=fault):
        run(tmp_path, phone, **options)
    assert phone.calls == 0


@pytest.mark.parametrize("content", ["{}", "no json", '{"format_version": 2}'])
def test_a_file_that_is_no_result_is_refused(tmp_path, content):
    path = tmp_path / "search.json"
    path.write_text(content)
    with pytest.raises(errors.BenchmarkError, match="format_version 1"):
        result.read_result(path)
    with pytest.raises(errors.BenchmarkError, match="received none"):
        result.read_result(tmp_path / "absent.json")


def test_the_folder_holds_what_the_manual_says(finished):
    folder, phone, _ = finished
    assert {path.name for path in folder.glob("[!.]*")} == {
        *("search.json", "search.txt", "recipes", "measurements"),
    }
    stored = [json.loads(path.read_text()) for path in (folder / "measurements").iterdir()]
    assert {s["name"] for s in stored} == set(phone.measured)
    assert {f"{s['key']}.json" for s in stored} == {
        path.name for path in pathlib.Path(folder / "measurements").iterdir()
    }


def space_shape(proposal):
    mobile = "bottleneck_size" in proposal.config
    kind = models.MobileBertConfig if mobile else models.EncoderConfig
    return kind(**proposal.config)
