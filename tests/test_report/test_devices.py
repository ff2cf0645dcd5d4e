import pytest

from tfdistill.benchmark import schema
from tfdistill.report import devices
from tfdistill.report.devices import NamedResult, by_device


@pytest.fixture
def named(fake_results):
    """Makes a named result of models."""

    def make(label, models, **options):
        value = fake_results.result(models, **options)
        return NamedResult(label, schema.Result.model_validate(value))

    return make


def test_hosts_emulated_devices_and_phones_are_never_in_one_group(named, fake_results):
    models = [fake_results.model("student")]
    same_name = {"name": "the very same", "id": "0" * 12}
    results = [
        named(kind, models, kind=kind, device=same_name) for kind in ("phone", "emulator", "host")
    ]
    groups = by_device(results)
    assert [device.kind for device in groups] == ["host", "emulator", "phone"]
    assert [device.title for device in groups] == [
        "Host: the very same",
        "Emulated device: the very same",
        "Phone: the very same",
    ]
    assert len({device.key for device in groups}) == 3


def test_two_phones_of_one_model_are_two_devices(named, fake_results):
    models = [fake_results.model("student")]
    results = [
        named(str(i), models, kind="phone", device={"name": "Example Phone 8", "id": str(i) * 12})
        for i in (1, 2, 1)
    ]
    first, second = by_device(results)
    assert [r.label for r in first.results] == ["1", "1"]
    assert [r.label for r in second.results] == ["2"]


def test_a_serial_number_that_two_models_share_does_not_make_them_one_device(named, fake_results):
    models = [fake_results.model("student")]
    results = [
        named(name, models, kind="phone", device={"name": name, "id": "0" * 12})
        for name in ("Example 8", "Example 9")
    ]
    assert [device.device.name for device in by_device(results)] == ["Example 8", "Example 9"]


def test_files_of_one_name_are_told_apart_by_as_little_as_it_takes(named, fake_results):
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


def test_one_file_measured_in_two_configurations_has_one_name(named, fake_results):
    model = fake_results.model("student")
    (device,) = by_device(
        [
            named("a", [model], kind="phone"),
            named("b", [model], kind="phone", delegate="gpu"),
        ]
    )
    assert [file.label for file in device.files] == ["student", "student"]
    assert [timing.label for timing in device.timings] == ["student, XNNPACK", "student, GPU"]
    assert len({timing.series for timing in device.timings}) == 2


def test_a_configuration_is_named_only_where_configurations_differ(named, fake_results):
    (device,) = by_device([named("a", [fake_results.model("student")])])
    assert [timing.label for timing in device.timings] == ["student"]
    app, tool = (
        named(label, [fake_results.model("student")], kind="phone", backend=label)
        for label in ("app", "benchmark_model")
    )
    (device,) = by_device([app, tool])
    assert [t.label for t in device.timings] == ["student, app", "student, benchmark_model"]


def test_files_are_compared_where_most_of_them_were_measured(named, fake_results):
    def place(*lengths, threads=(1,)):
        models = [
            fake_results.Model(f"m{i}", f"{i:064x}", dict.fromkeys(held, 1.0))
            for i, held in enumerate(lengths)
        ]
        (device,) = by_device([named("a", models, threads=threads)])
        return device.common_case, [timing.label for timing in device.compared_timings()]

    assert place([32, 64], [64], [64, 128]) == ((64, 1), ["m0", "m1", "m2"])
    assert place([32, 128], [32, 128], threads=(2, 1)) == ((128, 1), ["m0", "m1"])


def test_a_device_on_which_nothing_was_measured_has_no_common_case(named, fake_results):
    (device,) = by_device([named("a", [], measurements=[])])
    assert device.common_case is None
    assert device.compared_timings() == []


def test_settled_colours_are_kept_and_new_ones_are_none_of_them(named, fake_results):
    models = [fake_results.model(name, number=i) for i, name in enumerate("abc", start=1)]
    (device,) = by_device([named("r", models)], {"b": 0, "c": 4})
    assert device.numbers == {"a": 5, "b": 0, "c": 4}


def test_it_is_said_where_a_latency_was_measured(named, fake_results):
    models = [fake_results.model("student")]
    results = [named(kind, models, kind=kind) for kind in ("host", "emulator", "phone")]
    assert [device.where for device in by_device(results)] == [
        "on the host Example 9000 Processor",
        "on the emulated device sdk_gphone64",
        "on the phone Example Phone 8",
    ]
    assert devices.single_device(results[0], {}).where == "on this host"
