"""The quick benchmark: one figure a length, no text job, no repetitions."""

import pytest

from tfdistill import benchmark
from tfdistill.benchmark import host
from tfdistill.benchmark.host import measuring
from tfdistill.benchmark.settings import Settings


def test_it_gives_a_median_for_each_length_and_the_peak(export_folder, monkeypatch):
    results = []

    def measure(*arguments, **options):
        results.append(real(*arguments, **options))
        return results[-1]

    real = host.measure
    monkeypatch.setattr(measuring, "measure", measure)
    figures = measuring.quick_benchmark(export_folder / "model.tflite", runs=20, min_seconds=0.0)

    (result,) = results
    cells = result.summary
    assert figures["p50_ms"] == {cell.sequence_length: cell.p50_ms for cell in cells}
    assert set(figures["p50_ms"]) == {8, 16}
    assert figures["busy_lengths"] == [cell.sequence_length for cell in cells if cell.busy]
    assert figures["peak_rss_bytes"] == max(cell.peak_rss_bytes for cell in cells) > 1e6
    assert {m.repetition for m in result.measurements} == {0}
    assert {m.threads for m in result.measurements} == {1}
    assert (result.tokenizer, result.end_to_end) == (None, ())


def test_the_quick_benchmark_is_public():
    assert benchmark.quick_benchmark is measuring.quick_benchmark


@pytest.mark.parametrize("texts", [True, False])
def test_texts_are_measured_only_when_asked(export_folder, texts):
    options = {"runs": 10, "min_seconds": 0.0, "repetitions": 1, "rounds": 2, "warmup": 1}
    result = host.measure(export_folder, settings=Settings(lengths=(8,), texts=texts, **options))

    assert (result.tokenizer is not None) is texts
