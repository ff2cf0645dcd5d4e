"""The quick benchmark: one figure a length, no text job, no repetitions."""

from tfdistill.benchmark import host
from tfdistill.benchmark.host import measuring


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
