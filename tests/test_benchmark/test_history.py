"""Many results over time: what belongs to one line, what changed, what was skipped."""

import csv
import io
import json

import benchmark_results as made
import pytest

from tfdistill import errors
from tfdistill.benchmark import result
from tfdistill.benchmark.comparing import changes, history

DAYS = [f"2026-11-0{day}T00:00:00+00:00" for day in (1, 2, 3, 4)]


def run(level, day, *, sha="a", seed=0, **more):
    rows = made.repetitions(level, seed=seed, length=more.pop("length", 32))
    models = [made.model_file(sha256=sha * 64)]
    return made.assembled(rows, models=models, created=DAYS[day], **more)


def traced(*results):
    return history.trace([(f"{i}.json", value) for i, value in enumerate(results)])


def test_each_result_is_compared_with_the_one_before_it_in_time():
    first, second, third = run(2.0, 0), run(2.01, 1, sha="b", seed=1), run(3.0, 2, sha="c", seed=2)
    found = traced(third, first, second)
    assert [entry.created for entry in found.entries] == DAYS[:3]
    assert [entry.file for entry in found.entries] == ["1.json", "2.json", "0.json"]
    assert [entry.sha256[0] for entry in found.entries] == ["a", "b", "c"]
    assert [entry.beyond_chance for entry in found.entries] == [None, False, True]
    (row,) = changes.between(second, third).rows
    last = found.entries[2]
    assert last.change == pytest.approx(row.slowdown)
    assert last.change_ci == pytest.approx(row.slowdown_ci)
    assert (last.p50_ms, last.p50_ci_ms) == (third.summary[0].p50_ms, third.summary[0].p50_ci_ms)


def test_moments_are_compared_not_spellings():
    early = run(2.0, 0).model_copy(update={"created": "2026-11-02T00:10:00+01:00"})
    late = run(2.0, 0).model_copy(update={"created": "2026-11-01T23:30:00Z"})
    found = traced(late, early)
    assert [entry.file for entry in found.entries] == ["1.json", "0.json"]


@pytest.mark.parametrize(
    "other",
    [
        {"length": 64},
        {"device": made.HOST.model_copy(update={"id": "c" * 12})},
        {"kind": "phone", "device": made.PHONE, "backend": "benchmark_model"},
        {"backend": "app"},
    ],
)
def test_other_places_devices_and_kinds_are_lines_of_their_own(other):
    found = traced(run(2.0, 0), run(9.0, 1, **other))
    assert [entry.change for entry in found.entries] == [None, None]


def test_what_else_changed_is_remarked():
    runtime = made.RUNTIME.model_copy(update={"version": "2.4.0"})
    device = made.HOST.model_copy(update={"os": "Debian 13"})
    found = traced(run(2.0, 0), run(2.0, 1, seed=1, runtime=runtime, device=device))
    assert found.entries[1].remarks == (
        "the same file",
        "ai_edge_litert 2.3.0 -> ai_edge_litert 2.4.0",
        "Debian -> Debian 13",
    )


def test_runs_of_an_unchanged_file_show_the_noise_from_run_to_run():
    found = traced(run(2.0, 0), run(2.2, 1, seed=1), run(5.0, 2, sha="b"))
    (note,) = found.notes
    p50 = [entry.p50_ms for entry in found.entries]
    assert "2 runs of unchanged files" in note
    spread = (p50[1] / p50[0]) ** (1 / 2**0.5) - 1  # of two logarithms: their distance / sqrt(2)
    assert f"a standard deviation of {spread:.1%}." in note


def test_one_repetition_has_a_change_but_no_verdict():
    single = made.assembled(made.repetitions(4.0, number=1), created=DAYS[1])
    entry = traced(run(2.0, 0), single).entries[1]
    assert entry.change == pytest.approx(1.0, abs=0.1)
    assert (entry.change_ci, entry.beyond_chance) == (None, None)
    assert "one repetition cannot tell a change" in entry.remarks


def test_a_time_that_is_none_is_an_error():
    odd = run(2.0, 0).model_copy(update={"created": "yesterday"})
    with pytest.raises(errors.BenchmarkError, match=r"0\.json: created: expected a time"):
        traced(odd)


@pytest.fixture
def folder(tmp_path):
    """Two results, one of them deeper, and what else lies about."""
    result.write_result(run(2.0, 0), tmp_path / "one.json")
    (tmp_path / "deep").mkdir()
    result.write_result(run(2.0, 1, seed=1), tmp_path / "deep" / "two.json")
    (tmp_path / "model.json").write_text('{"format_version": 1}')
    (tmp_path / "cut.json").write_text('{"format_version": 2, "ki')
    (tmp_path / "notes.txt").write_text("not looked at")
    return tmp_path


def test_a_folder_is_searched_and_what_is_no_result_is_named(folder):
    found, notes = history.collect([folder])
    names = [file for file, _ in found]
    assert names == [str(folder / "deep" / "two.json"), str(folder / "one.json")]
    assert notes == ["Skipped, no results of format_version 2: cut.json, model.json."]


def test_many_skipped_files_are_counted(folder):
    for index in range(9):
        (folder / f"a{index}.json").write_text("{}")
    _, (note,) = history.collect([folder])
    assert note.endswith("a0.json, a1.json, a2.json, a3.json, a4.json and 6 more.")


def test_a_file_that_is_named_must_be_a_result(folder):
    for name in ("model.json", "cut.json", "none.json"):
        with pytest.raises(
            errors.BenchmarkError, match=f"{name}(, line 1)?: expected a benchmark result"
        ):
            history.collect([folder, folder / name])


def test_a_file_counts_once(folder):
    found, _ = history.collect([folder / "one.json", folder, folder / "deep" / ".." / "one.json"])
    assert len(found) == 2


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(errors.BenchmarkError, match="received none"):
        history.collect([tmp_path])
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(errors.BenchmarkError, match="received 1 other JSON file"):
        history.collect([tmp_path])


def test_the_text_has_a_table_for_each_line_and_marks_what_is_no_chance():
    found = traced(run(2.0, 0), run(3.0, 1, sha="b", seed=1), run(2.0, 2, sha="c", seed=2))
    lines = history.format_text(found).splitlines()
    assert lines[0] == "student at 32 tokens, 1 thread on host A processor (ba9876543210), litert"
    assert "SLOWER" in lines[4] and "bbbbbbbb" in lines[4] and "+" in lines[4]
    assert lines[5].endswith("faster")
    assert "within chance" in history.format_text(traced(run(2.0, 0), run(2.0, 1, seed=1)))


def test_no_name_in_a_csv_is_a_formula():
    models = [made.model_file(name='=HYPERLINK("http://x")', sha256="a" * 64)]
    rows = made.repetitions(2.0, model='=HYPERLINK("http://x")')
    value = made.assembled(rows, models=models, created=DAYS[0])
    (row,) = csv.DictReader(io.StringIO(history.format_csv(history.trace([("-a.json", value)]))))
    assert row["file"] == "'-a.json"
    assert row["model"].startswith("'=HYPERLINK")
    assert float(row["p50_ms"]) > 0


def test_csv_and_json_hold_the_same_rows():
    found = traced(run(2.0, 0), run(3.0, 1, sha="b", seed=1))
    rows = list(csv.DictReader(io.StringIO(history.format_csv(found))))
    entries = json.loads(json.dumps(history.as_dict(found), allow_nan=False))["entries"]
    assert len(rows) == len(entries) == 2
    for row, entry, source in zip(rows, entries, found.entries, strict=True):
        assert (row["model"], row["sequence_length"], row["device_id"]) == (
            "student",
            "32",
            "ba9876543210",
        )
        assert float(row["p50_ms"]) == entry["p50_ms"] == source.p50_ms
        assert float(row["p50_ci_ms_low"]) == entry["p50_ci_ms"][0]
        assert entry["remarks"] == list(source.remarks)
    assert (rows[0]["change"], rows[0]["change_ci_low"]) == ("", "")
    assert float(rows[1]["change_ci_high"]) == entries[1]["change_ci"][1]
