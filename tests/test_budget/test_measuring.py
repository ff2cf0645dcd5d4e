"""Students with random weights, exported and measured on one device."""

import pytest
from simulated_device import TEACHER, Phone, true_latency

from tfdistill import config, errors, manifest, models
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.budget import measuring, shapes

STUDENTS = shapes.ladder(TEACHER, "float32")
SETTINGS = Settings(lengths=(32, 64))


def test_a_latency_is_that_of_the_slowest_length():
    phone = Phone()
    bench = measuring.StudentBench(phone.measure, phone.convert, SETTINGS)
    latency_ms = bench.measure(STUDENTS[0])
    assert latency_ms == pytest.approx(true_latency(STUDENTS[0].config, 64))
    assert bench.latency_ms == {STUDENTS[0].name: latency_ms}
    assert not any(path.exists() for path in phone.shapes)


def test_two_devices_are_not_mixed():
    phone = Phone()
    bench = measuring.StudentBench(phone.measure, phone.convert, SETTINGS)
    bench.measure(STUDENTS[0])
    phone.device_id = "ffffffffffff"
    with pytest.raises(errors.BenchmarkError, match=r"all on one device.*--serial"):
        bench.measure(STUDENTS[1])


def test_a_failed_measurement_is_explained_with_its_reason():
    class Broken(Phone):
        def measure(self, models, settings):
            failure = schema.Failure(what="2l", error="the device was unplugged")
            measured = super().measure(models, settings)
            return measured.model_copy(
                update={"summary": measured.summary[:1], "failures": (failure,)}
            )

    phone = Broken()
    bench = measuring.StudentBench(phone.measure, phone.convert, SETTINGS)
    with pytest.raises(errors.BenchmarkError, match=r"at 64 tokens.*was unplugged"):
        bench.measure(STUDENTS[0])


@pytest.mark.slow
def test_files_with_random_weights_take_the_lengths_and_the_quantization(tmp_path):
    shape = models.preset("bert_tiny").replace(vocab_size=60, num_layers=1)
    candidate = shapes.Candidate(config.PrunedShape(layers=1), shape)
    path = tmp_path / "model.tflite"
    measuring.converter("dynamic_wi8_afp32", (8,), "sequence")(candidate, path)
    assert path.stat().st_size > 60 * 128
    assert not (tmp_path / manifest.FILE_NAME).exists()  # only the file is measured
