"""The edge: files with random weights through the real exporter, clocks of the real runtime."""

import pathlib
import tempfile

import numpy as np
import pytest
import simulated_device

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.search import bench, design, devices, fit, space, work
from tfdistill.search.store import Store

FORM = bench.FileForm("dynamic_wi8_afp32", (16,), "sequence")


def open_bench(phone, folder, **settings):
    return bench.CandidateBench(
        phone.measure, phone.convert, Store(folder), FORM, Settings(**settings)
    )


def test_every_batch_has_the_anchor_and_files_of_their_own(tmp_path):
    batches = []

    class Watched(simulated_device.Phone):
        def measure(self, models, settings):
            assert all(path.is_file() for path in models.values())
            batches.append(set(models))
            return super().measure(models, settings)

    phone = Watched()
    found = space.candidates("tinybert", simulated_device.TEACHER)[:12]
    with open_bench(phone, tmp_path) as device:
        readings = device.readings(found, "files")
        folder = {path.parent for path in phone.shapes}
    assert [reading.name for reading in readings] == [candidate.name for candidate in found]
    assert batches[0] == {"anchor"} and all("anchor" in batch for batch in batches)
    assert [len(batch) for batch in batches] == [1, 6, 6, 3]
    assert not any(path.exists() for path in folder)  # nothing stays behind


def test_the_order_of_measuring_is_not_that_of_the_shapes(tmp_path):
    phone = simulated_device.Phone()
    found = space.candidates("tinybert", simulated_device.TEACHER)[:10]
    with open_bench(phone, tmp_path) as device:
        device.readings(found, "files")
    assert phone.measured != [candidate.name for candidate in found]
    assert set(phone.measured) == {candidate.name for candidate in found}


def test_a_device_that_is_not_there_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        open_bench(simulated_device.Phone(fails_at=1), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_several_phones_are_one_too_many(monkeypatch):
    from tfdistill.benchmark import adb

    monkeypatch.setattr(adb, "measure", lambda *args, **options: [1, 2], raising=False)
    with pytest.raises(errors.BenchmarkError, match="--serial"):
        devices.MeasureOnPhone()({}, Settings())


def test_a_phone_gets_the_settings_the_serial_and_the_tool(monkeypatch):
    from tfdistill.benchmark import adb

    asked = []
    failure = schema.Failure(what="the rest on 0123456789ab", error="adb -s 0123456789ab shell")

    def measure(models, *, settings, serials, binary, shown):
        asked.append((models, settings, serials, binary))
        shown["0123456789ab"] = "abc"
        found = simulated_device.Phone().result({}, settings)
        return [found.model_copy(update={"failures": (failure,)})]

    monkeypatch.setattr(adb, "measure", measure, raising=False)
    files = {"a": pathlib.Path("a.tflite")}
    found = devices.MeasureOnPhone("abc", "tool")(files, Settings(runs=7))
    assert asked == [(files, Settings(runs=7), ("abc",), "tool")]
    # What becomes an error on the terminal has to name what adb knows.
    assert found.failures == (schema.Failure(what="the rest on abc", error="adb -s abc shell"),)


@pytest.mark.slow
def test_a_real_file_has_a_real_latency_on_this_host(tmp_path):
    candidate = design.ANCHOR
    small = space.Candidate("relu", candidate.config.replace(vocab_size=500, hidden_act="relu"))
    path = tmp_path / "small.tflite"
    bench.converter(FORM)(small, path)
    settings = Settings(lengths=(16,), runs=4, min_seconds=0, repetitions=1, rounds=2, texts=False)
    found = devices.measure_on_host({"small": path}, settings)
    (cell,) = found.summary
    assert (cell.model, cell.sequence_length, found.kind) == ("small", 16, "host")
    predicted = work.contents(small.config, (16,)).weights
    assert predicted < path.stat().st_size < 1.6 * predicted


@pytest.mark.slow
@pytest.mark.thorough
def test_sizes_of_real_files_are_predicted_within_one_percent(tmp_path):
    from export.conversion import convert as converting
    from export.model import signature
    from tfdistill import models

    found = [
        *space.candidates("tinybert", simulated_device.TEACHER, vocab_size=800)[:60:6],
        *space.candidates("mobilebert", simulated_device.TEACHER, vocab_size=800)[:8:4],
    ]
    found = [c.with_layers(1 + i % 3) for i, c in enumerate(found)]
    random = np.random.default_rng(0)
    sizes = []
    for candidate in found:
        model = models.build_classifier(candidate.config, 2)
        for variable in model.weights:
            if len(variable.shape) == 1:
                variable.assign(random.normal(1, 0.02, variable.shape))
        saved, file = tmp_path / "saved", tmp_path / "file.tflite"
        signature.save(model, saved, lengths=(16,), softmax=False)
        converting.run(converting.Conversion(str(saved), str(file), "dynamic_wi8_afp32", ["len16"]))
        sizes.append(file.stat().st_size)
    contents = work.contents_matrix([c.config for c in found], (16,))
    left_out = [
        fit.fit_size(np.delete(contents, i, 0), np.delete(sizes, i).tolist()).predict(contents)[i]
        for i in range(len(found) - 2)  # the last two: one of each kind of MobileBERT
    ]
    np.testing.assert_allclose(left_out, sizes[:-2], rtol=0.01)
