"""The papers' table: its files and measurements are kept, and never mixed."""

import dataclasses
import pathlib
import re
import shutil

import pytest
from papers import exporting, making
from papers.table import PapersTable

from tfdistill import errors, models, reading
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import open_subject

PRESETS = ("bert_base", "mobilebert")
QUANTIZATIONS = ("float32", "dynamic_wi8_afp32")
SETTINGS = Settings(threads=(1, 2), lengths=(8,), runs=4, rounds=2, repetitions=2, texts=False)
TIMES = {"bert_base": 12.0, "mobilebert": 4.0}


class Stopwatch:
    """Stands in for a device: durations that follow from the file's name and the threads.

    It stops, as Ctrl-C does, at the measurement of index `stop`.
    """

    def __init__(self, stop=None, device="a processor", failures=()):
        self.stop, self.device, self.failures = stop, device, failures
        self.requests = []

    def __call__(self, paths, settings):
        if len(self.requests) == self.stop:
            raise KeyboardInterrupt
        names = [pathlib.Path(path).name for path in paths]
        (length,), (threads,) = settings.lengths, settings.threads
        self.requests.append((names, length, threads))
        rows = []
        for name in names:
            preset, quantization = name.split("-")
            ms = TIMES[preset] / threads / (4 if quantization != "float32" else 1)
            for repetition in range(settings.repetitions):
                samples = tuple(ms * (1 + 0.001 * i) for i in range(settings.runs))
                rows.append(
                    schema.Measurement(
                        model=name,
                        sequence_length=length,
                        threads=threads,
                        repetition=repetition,
                        samples_ms=samples,
                        block_runs=settings.runs // settings.rounds,
                    )
                )
        return result.assemble(
            kind="host",
            backend="litert",
            device=schema.Device(name=self.device),
            runtime=schema.Runtime(name="ai_edge_litert", version="2.3.0"),
            models=[result.model_file(open_subject(path)) for path in paths],
            measurements=rows,
            failures=self.failures,
            settings=settings,
            command=(),
            created="2026-01-01T00:00:00+00:00",
        )


@pytest.fixture(scope="module")
def files_made(tmp_path_factory):
    """The exports of a table, made once: a table that was stopped at its first measurement."""
    folder = tmp_path_factory.mktemp("table") / "out"
    with pytest.raises(KeyboardInterrupt):
        making.make_table(folder, request(), Stopwatch(stop=0))
    return folder


@pytest.fixture
def folder(files_made, tmp_path):
    return pathlib.Path(shutil.copytree(files_made, tmp_path / "out"))


@pytest.fixture
def no_export(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("exported again")

    monkeypatch.setattr(exporting.tflite, "to_tflite", refuse)


def request(**changes):
    values = {
        "presets": PRESETS,
        "quantizations": QUANTIZATIONS,
        "settings": SETTINGS,
        "scaled_down": True,
    }
    return making.TableRequest(**{**values, **changes})


@pytest.mark.thorough
def test_a_table_that_was_stopped_goes_on_where_it_stood(folder, no_export):
    with pytest.raises(KeyboardInterrupt):
        making.make_table(folder, request(), Stopwatch(stop=3))
    measured = sorted(path.name for path in (folder / "measurements" / "host").iterdir())
    assert measured == ["dynamic_wi8_afp32-8-1.json", "float32-8-1.json", "float32-8-2.json"]
    rest = Stopwatch()
    table = making.make_table(folder, request(), rest)
    assert [call[1:] for call in rest.requests] == [(8, 2)]
    assert len(table.latencies) == 2 * 2 * 2
    once_more = Stopwatch()
    assert making.make_table(folder, request(), once_more).latencies == table.latencies
    assert once_more.requests == []


@pytest.mark.thorough
def test_the_reference_in_float32_takes_turns_among_the_small_files(folder, no_export):
    watch = Stopwatch()
    making.make_table(folder, request(), watch)
    float32, small = watch.requests[0][0], watch.requests[2][0]
    assert float32 == [f"{preset}-float32" for preset in PRESETS]
    assert small == [*(f"{preset}-dynamic_wi8_afp32" for preset in PRESETS), "bert_base-float32"]


@pytest.mark.thorough
def test_the_table_holds_sizes_speedups_and_where_they_come_from(folder, no_export):
    table = making.make_table(folder, request(), Stopwatch())
    row = table.latency("mobilebert", "dynamic_wi8_afp32", 8, 2)
    assert row.speedup == pytest.approx(3.0)
    assert row.over_float32 == pytest.approx(12.0)
    assert row.speedup_ci[0] <= 3.0 <= row.speedup_ci[1]
    assert (row.n, row.repetitions) == (8, 2)
    assert table.latency("bert_base", "float32", 8, 1).speedup is None
    assert table.latency("bert_base", "dynamic_wi8_afp32", 8, 1).over_float32 == pytest.approx(4.0)
    for file in table.files:
        on_disk = folder / file.file
        assert on_disk.stat().st_size == file.size_bytes
    by_name = {entry.model: entry for entry in table.models}
    config = exporting.shape("mobilebert", scaled_down=True)
    assert by_name["mobilebert"].parameters == models.count_parameters(config)
    assert by_name["mobilebert"].flops == {8: models.flops(config, 8)}
    for name in table.measurements:
        assert result.read_result(folder / name).summary
    content = (folder / "table.json").read_bytes()
    written = reading.read_model(
        content, PapersTable, "table.json", error=errors.DataError, expected="a table"
    )
    assert written == table
    assert (folder / "table.md").read_text().startswith("# Toys")
    assert len((folder / "table.csv").read_text().splitlines()) == 1 + len(table.latencies)


@pytest.mark.thorough
def test_more_threads_are_added_to_a_table(folder, no_export):
    making.make_table(folder, request(), Stopwatch())
    settings = dataclasses.replace(SETTINGS, threads=(1, 2, 4))
    watch = Stopwatch()
    table = making.make_table(folder, request(settings=settings), watch)
    assert [call[2] for call in watch.requests] == [4, 4]
    assert table.threads == (1, 2, 4)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"presets": PRESETS[:1]}, "models"),
        ({"settings": Settings(lengths=(8, 16))}, "lengths"),
        ({"scaled_down": False}, "scaled_down"),
    ],
)
def test_another_table_is_refused_and_nothing_changes(folder, changes, said):
    before = sorted(folder.rglob("*"))
    with pytest.raises(errors.OutputExistsError, match=f"(?s){said}.*--overwrite"):
        making.make_table(folder, request(**changes), Stopwatch())
    assert sorted(folder.rglob("*")) == before


@pytest.mark.thorough
@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_damaged_request_is_another_table(folder, content):
    (folder / "request.json").write_text(content)
    with pytest.raises(errors.OutputExistsError):
        making.make_table(folder, request(), Stopwatch())


@pytest.mark.thorough
def test_measurements_taken_in_another_way_are_not_mixed_in(folder, no_export):
    making.make_table(folder, request(), Stopwatch())
    settings = dataclasses.replace(SETTINGS, runs=400)
    with pytest.raises(errors.OutputExistsError, match="'runs': 400"):
        making.make_table(folder, request(settings=settings), Stopwatch())


@pytest.mark.thorough
def test_measurements_of_other_files_are_not_mixed_in(folder, no_export):
    making.make_table(folder, request(), Stopwatch())
    measurement = folder / "measurements" / "host" / "float32-8-1.json"
    measured = result.read_result(measurement)
    first, second, *others = measured.models
    models_of_others = (first, second.model_copy(update={"sha256": "0" * 64}), *others)
    result.write_result(measured.model_copy(update={"models": models_of_others}), measurement)
    with pytest.raises(errors.OutputExistsError, match="one of other files"):
        making.make_table(folder, request(), Stopwatch())


@pytest.mark.thorough
def test_measurements_of_two_machines_are_not_mixed(folder, no_export):
    with pytest.raises(KeyboardInterrupt):
        making.make_table(folder, request(), Stopwatch(stop=1))
    with pytest.raises(errors.BenchmarkError, match="all on one device"):
        making.make_table(folder, request(), Stopwatch(device="another"))


def test_folders_of_others_that_have_the_names_of_a_tables_are_never_removed(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter.txt").write_text("dear")
    with pytest.raises(errors.OutputExistsError):
        making.make_table(tmp_path, request(), Stopwatch(), overwrite=True)
    assert (tmp_path / "files" / "letter.txt").read_text() == "dear"


@pytest.mark.thorough
def test_a_place_that_was_throttled_carries_the_mark(folder, no_export):
    class Warm(Stopwatch):
        def __call__(self, paths, settings):
            measured = super().__call__(paths, settings)
            rows = [row.model_copy(update={"throttled": True}) for row in measured.summary[:1]]
            return measured.model_copy(update={"summary": (*rows, *measured.summary[1:])})

    table = making.make_table(folder, request(), Warm())
    marked = {row.model for row in table.latencies if row.throttled}
    assert len(marked) == 1 and marked < set(PRESETS)
    text = (folder / "table.md").read_text()
    assert re.search(r"\d ▲ ", text) and "▲: the device throttled" in text


@pytest.mark.thorough
def test_a_measurement_with_a_failure_is_not_kept(folder, no_export):
    broken = Stopwatch(failures=[schema.Failure(what="bert_base", error="out of memory")])
    with pytest.raises(errors.BenchmarkError, match="bert_base: out of memory"):
        making.make_table(folder, request(), broken)
    assert not (folder / "measurements").exists()


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(errors.OutputExistsError):
        making.make_table(tmp_path, request(), Stopwatch())
    with pytest.raises(errors.OutputExistsError):
        making.make_table(tmp_path, request(), Stopwatch(), overwrite=True)
    assert (tmp_path / "letter.txt").read_text() == "dear"


@pytest.mark.thorough
def test_overwrite_starts_anew(folder):
    making.make_table(folder, request(), Stopwatch())
    watch = Stopwatch()
    changed = request(presets=PRESETS[1:], quantizations=("float32",))
    table = making.make_table(folder, changed, watch, overwrite=True)
    assert table.reference == "mobilebert"
    assert [path.name for path in (folder / "files").iterdir()] == ["mobilebert-float32"]
    assert len(watch.requests) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"presets": ("bert_bass",)}, "bert_base"),
        ({"presets": ("bilstm_1l_150d",)}, "transformer"),
        ({"presets": ()}, "models"),
        ({"quantizations": ("static_wi8_ai8",)}, "calibration"),
        ({"quantizations": ("int9",)}, "quantiz"),
        ({"settings": Settings(lengths=(1024,))}, "at most 512"),
        ({"settings": Settings()}, "lengths"),
    ],
)
def test_what_cannot_become_a_table_is_refused_at_once(changes, said):
    with pytest.raises(errors.ConfigError, match=said):
        request(**changes)
