import pytest
from test_report import fake_results

from tfdistill.benchmark import schema
from tfdistill.report import tradeoff
from tfdistill.report.devices import NamedResult, by_device
from tfdistill.results import SweepResults


@pytest.fixture
def trade_offs():
    """The trade-offs of one device."""

    def make(models, **options):
        result = schema.Result.model_validate(fake_results.result(models, **options))
        (device,) = by_device([NamedResult("a", result)])
        return tradeoff.of_device(device)

    return make


def test_files_without_accuracy_or_of_another_length_are_listed_and_not_drawn(trade_offs):
    bare = fake_results.Model("bare", "e" * 64, {128: 1.0})
    short = fake_results.model("short", number=2)
    short.p50_ms.clear()
    short.p50_ms[32] = 1.0
    models = [fake_results.model("whole", number=1), bare, short]
    models.append(fake_results.model("other", number=4, accuracy=0.7))
    (value,) = trade_offs(models)
    assert [point.label for point in value.points] == ["whole", "other"]
    assert value.left_out == (
        "short: not measured at 128 tokens, 1 thread.",
        "bare: its accuracy is not known (no task was checked).",
    )
    notes = " ".join(tradeoff.table("k", value).notes)
    assert "Left out: short" in notes and "Left out: bare" in notes


def test_the_devices_own_answers_count_where_all_files_have_them(trade_offs):
    models = [fake_results.model(name, number=i) for i, name in enumerate("ab", start=1)]
    answers = [fake_results.answers("a", 0.81), fake_results.answers("b", 0.79)]
    (value,) = trade_offs(models, kind="phone", answers=answers)
    assert [point.accuracy for point in value.points] == [0.81, 0.79]
    assert "of the answers of the phone itself on 200 development examples" in value.checked
    (value,) = trade_offs(models, kind="phone", answers=answers[:1])
    assert [point.accuracy for point in value.points] == [0.9, 0.9]
    assert "on the host" in value.checked


def test_answers_of_one_delegate_say_nothing_about_another(trade_offs):
    model = fake_results.model("a")
    answers = [fake_results.answers("a", 0.5, delegate="gpu")]
    (value,) = trade_offs([model], kind="phone", answers=answers)
    assert value.points[0].accuracy == 0.9


def test_another_number_of_examples_is_said(trade_offs):
    models = [
        fake_results.model("a", number=1, num_examples=200),
        fake_results.model("b", number=2),
    ]
    (value,) = trade_offs(models)
    assert "on 200 to 872 development examples (not the same for all)" in value.checked


def test_a_sweep_gives_a_point_for_each_good_quantization():
    rows = [
        {"name": "float32", "verdict": "good", "size_bytes": 4, "p50_ms": {"32": 1, "128": 5}}
        | {"busy_lengths": [128]},
        {"name": "int8", "verdict": "good", "size_bytes": 1, "p50_ms": {"32": 1, "128": 2}},
        {"name": "int4", "verdict": "beyond bounds", "size_bytes": 1, "p50_ms": {"128": 2}},
        {"name": "none", "verdict": "impossible", "why": "expected widths"},
        {"name": "unmeasured", "verdict": "good", "size_bytes": 1},
    ]
    for row in rows:
        row.update(file_metrics={"accuracy": 0.84}, primary_metric="accuracy")
    value = tradeoff.of_sweep(SweepResults.model_validate({"format_version": 1, "rows": rows}))
    assert value is not None
    assert [(p.label, p.latency_ms, p.number, p.marks) for p in value.points] == [
        ("float32", 5, 1, "busy machine"),
        ("int8", 2, 2, ""),
    ]
    assert [row.head.detail for row in tradeoff.table("k", value).rows] == ["", "busy machine"]
    assert [point.on_front for point in value.points] == [False, True]
    assert value.left_out == (
        "int4: beyond bounds.",
        "none: impossible.",
        "unmeasured: latency not known.",
    )


def test_a_sweep_without_figures_gives_none():
    assert tradeoff.of_sweep(SweepResults.model_validate({"format_version": 1, "rows": []})) is None
