import pytest
from test_report import fake_results

from tfdistill.report.devices import by_device


@pytest.fixture
def named():
    """Makes a named result of models."""

    def make(label, models, **options):
        value = fake_results.result(models, **options)
        return fake_results.collected({label: value}).results[0]

    return make


def same(kind, name="Example 8", number=0):
    return kind, {"name": name, "id": f"{number}" * 12}


@pytest.mark.parametrize(
    ("measured_on", "labels"),
    [
        ([same("phone"), same("emulator"), same("host")], ["2", "1", "0"]),
        ([same("phone"), same("phone", number=1), same("phone")], ["02", "1"]),
        ([same("phone"), same("phone", "Example 9")], ["0", "1"]),  # of one serial number
    ],
    ids=["kinds", "phones of one model", "models"],
)
def test_devices_are_told_apart_by_kind_model_and_number(named, measured_on, labels):
    models = [fake_results.model("student")]
    results = [
        named(str(i), models, kind=kind, device=device)
        for i, (kind, device) in enumerate(measured_on)
    ]
    groups = by_device(results)
    assert ["".join(result.label for result in device.results) for device in groups] == labels
    assert len({device.key for device in groups}) == len(labels)


def test_files_of_one_name_are_told_apart_by_as_little_as_it_takes(named):
    def labels(*results):
        (device,) = by_device(results)
        return [file.label for file in device.files]

    one = fake_results.model("student", number=1)
    other = fake_results.model("student", number=2)
    small = fake_results.model("student", number=3, quantization="float32")
    assert labels(named("a", [one])) == ["student"]
    assert labels(named("a", [one]), named("b", [small])) == [
        "student (dynamic_wi8_afp32)",
        "student (float32)",
    ]
    assert labels(named("a", [one]), named("b", [other])) == ["student (a)", "student (b)"]
    # The same file measured twice in the same way: its figures differ, so must its names.
    assert labels(named("a", [one]), named("b", [one])) == ["student (a)", "student (b)"]


def test_a_configuration_is_named_only_where_configurations_differ(named):
    (device,) = by_device([named("a", [fake_results.model("student")])])
    assert [timing.label for timing in device.timings] == ["student"]
    app, tool = (
        named(label, [fake_results.model("student")], kind="phone", backend=label)
        for label in ("app", "benchmark_model")
    )
    (device,) = by_device([app, tool])
    assert [t.label for t in device.timings] == ["student, app", "student, benchmark_model"]


def test_files_are_compared_where_most_of_them_were_measured(named):
    def place(*lengths, threads=(1,)):
        models = [
            fake_results.Model(f"m{i}", f"{i:064x}", dict.fromkeys(held, 1.0))
            for i, held in enumerate(lengths)
        ]
        (device,) = by_device([named("a", models, threads=threads)])
        return device.common_case, [timing.label for timing in device.compared_timings()]

    assert place([32, 64], [64], [64, 128]) == ((64, 1), ["m0", "m1", "m2"])
    assert place([32, 128], [32, 128], threads=(2, 1)) == ((128, 1), ["m0", "m1"])


def test_settled_colours_are_kept_and_new_ones_are_none_of_them(named):
    models = [fake_results.model(name, number=i) for i, name in enumerate("abc", start=1)]
    (device,) = by_device([named("r", models)], {"b": 0, "c": 4})
    assert device.numbers == {"a": 5, "b": 0, "c": 4}
