"""The sweep: a row for every quantization, figures in any case, finished rows kept."""

import json
import os
import shutil
import zlib

import pytest

from export.conversion import convert
from export.model import signature
from export.trials import sweeping
from tfdistill import errors, manifest, results
from tfdistill.io import files
from tfdistill.results import Trial

NAMES = ("float32", "dynamic_wi8_afp32")


def measure(file):
    p50_ms = {8: file.stat().st_size / 1e5, 16: 2.0}
    return {"p50_ms": p50_ms, "busy_lengths": [8], "peak_rss_bytes": 50_000_000}


@pytest.fixture(scope="module")
def request_of(toy):
    """A bound that float32 keeps (115 dB) and int8 breaks (30 dB)."""
    return toy.arguments(bounds={"sqnr_db": 60.0}, measure=measure)


@pytest.fixture(scope="module")
def saved_and_formats():
    """What the sweep had written: SavedModels, and formats by the converter's processes."""
    return []


@pytest.fixture(scope="module")
def swept(toy, request_of, tmp_path_factory, saved_and_formats):
    folder = tmp_path_factory.mktemp("sweep") / "all"
    save, run = signature.save, convert.run_in_child

    def told_save(*args, **options):
        saved_and_formats.append("saved")
        save(*args, **options)

    def told_run(todo, **options):
        there = todo.float_file is not None and os.path.exists(todo.float_file)
        saved_and_formats.append((todo.quantize, there))
        run(todo, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signature, "save", told_save)
        patch.setattr(convert, "run_in_child", told_run)
        return sweeping.sweep(toy.model, folder, NAMES, **request_of)


@pytest.mark.slow
def test_trials_of_one_model_convert_each_format_once(swept, saved_and_formats):
    # The second is beyond its bounds, and tried again without them for its figures.
    assert [row.verdict for row in swept.rows] == ["good", "beyond bounds"]
    assert swept.rows[1].sqnr_db is not None
    # One SavedModel: integers are made of the float32 file.
    assert saved_and_formats == ["saved", ("float32", False), ("dynamic_wi8_afp32", True)]


@pytest.fixture
def copied(swept, tmp_path):
    return shutil.copytree(swept.folder, tmp_path / "copy")


@pytest.fixture
def attempts(monkeypatch):
    """Stands in for `attempt`; the names that were tried. "beyond bounds" needs no file."""

    def attempt(request, **arguments):
        attempt.tried.append(request.quantize)
        if request.quantize in attempt.kill:
            raise KeyboardInterrupt
        if request.check_on is not None:
            attempt.num_examples.append(len(request.check_on))
        return attempt.answers.model_copy(update={"name": request.quantize})

    attempt.kill, attempt.tried, attempt.num_examples = set(), [], []
    attempt.answers = Trial(name="", verdict="beyond bounds", why="too far", sqnr_db=3.0)
    monkeypatch.setattr(sweeping, "attempt", attempt)
    return attempt


@pytest.mark.slow
def test_a_good_row_has_the_figures_of_the_file_that_stays(swept):
    row = swept.rows[0]
    file = swept.folder / "float32" / "model.tflite"
    card = manifest.read_manifest(file)

    assert (row.name, row.verdict, row.why) == ("float32", "good", "")
    assert row.size_bytes == file.stat().st_size == card.model.size_bytes
    assert row.zipped_bytes == len(zlib.compress(file.read_bytes(), 9)) < row.size_bytes
    assert row.p50_ms == measure(file)["p50_ms"]
    assert row.busy_lengths == (8,)
    assert row.peak_rss_bytes == 50_000_000
    assert row.file_metrics == card.parity.file_metrics
    assert row.file_metrics["accuracy"] == pytest.approx(0.9)  # a tenth of the labels is wrong
    assert (row.metric_drop, row.argmax_agreement) == (0.0, 1.0)
    assert row.sqnr_db == card.parity.sqnr_db > 80
    assert row.partitions in (1, 2)
    assert card.parity.bounds["sqnr_db"] == 60.0  # its own bounds, not those of a refused file


@pytest.mark.slow
def test_a_row_beyond_its_bounds_has_figures_and_a_reason_but_leaves_no_file(swept):
    row = swept.rows[1]

    assert (row.name, row.verdict) == ("dynamic_wi8_afp32", "beyond bounds")
    assert "SQNR: expected at least 60 dB" in row.why
    assert 20 < row.sqnr_db < 60
    assert row.size_bytes < 0.6 * swept.rows[0].size_bytes
    assert row.file_metrics["accuracy"] > 0.8
    assert row.p50_ms[16] == 2.0
    assert not (swept.folder / "dynamic_wi8_afp32" / "model.tflite").exists()


@pytest.mark.slow
def test_the_table_shows_every_row_and_why_one_is_not_good(swept):
    lines = swept.format_text().splitlines()

    titles = ("quantization MB zip p50 @8 @16 accuracy drop agree SQNR parts RSS verdict").split()
    assert [title for title in titles if title not in lines[0]] == []
    assert lines[2].startswith("float32 ") and lines[2].endswith("good")
    assert " 0.9000 " in lines[2] and " 2.00 " in lines[2]
    assert lines[3].startswith("dynamic_wi8_afp32 ") and lines[3].endswith("beyond bounds")
    assert "SQNR: expected at least 60 dB" in swept.format_text()


def test_the_table_says_what_was_not_checked_and_how_many_threads_a_latency_had():
    row = Trial(name="float32", verdict="good", size_bytes=10, real_inputs=False)
    text = sweeping.format_rows([row], (8,))
    assert "equal" in text.splitlines()[2]
    assert "parity only" in text and "random token ids" in text
    assert "p50" not in text and "RSS" not in text
    row = Trial(name="float32", verdict="good", p50_ms={8: 1.5})
    for threads, column in ((None, "p50 ms @8  "), (1, "p50 ms @8  "), (2, "@8, 2 threads  ")):
        assert column in sweeping.format_rows([row], (8,), threads=threads)


def test_figures_of_other_threads_are_not_taken(toy, attempts, tmp_path):
    def sweep(threads, measured=measure):
        return sweeping.sweep(
            toy.model, tmp_path / "s", ["float32"], measure=measured, threads=threads, lengths=(8,)
        )

    assert sweep(2).as_dict()["threads"] == 2
    with pytest.raises(errors.OutputExistsError, match=r"another one.*overwrite"):
        sweep(1)
    assert sweep(2).threads == 2 and attempts.tried == ["float32"]


@pytest.mark.slow
def test_a_row_whose_file_was_damaged_is_made_again(copied, toy, request_of, attempts):
    with open(copied / "float32" / "model.tflite", "ab") as file:
        file.write(b"x")
    sweeping.sweep(toy.model, copied, NAMES, **request_of)

    assert attempts.tried == ["float32"]


def test_after_a_kill_the_finished_rows_stay_and_the_others_follow(toy, attempts, tmp_path):
    attempts.kill = {"float16"}
    names = ("float32", "float16", "dynamic_wi8_afp32")
    with pytest.raises(KeyboardInterrupt):
        sweeping.sweep(toy.model, tmp_path / "s", names, lengths=(8,))
    attempts.kill = set()
    result = sweeping.sweep(toy.model, tmp_path / "s", names, lengths=(8,))

    assert attempts.tried == ["float32", "float16", "float16", "dynamic_wi8_afp32"]
    assert [row.name for row in result.rows] == list(names)
    saved = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [row["name"] for row in saved["rows"]] == list(names)


@pytest.mark.parametrize("verdict", ["failed", "impossible"])
def test_only_what_failed_is_tried_again(toy, attempts, tmp_path, verdict):
    sweeping.sweep(toy.model, tmp_path / "s", ["float16"], lengths=(8,))
    attempts.answers = Trial(name="", verdict=verdict, why="disk full")
    for _ in range(2):
        sweeping.sweep(toy.model, tmp_path / "s", ["float16", "float32"], lengths=(8,))

    assert attempts.tried == ["float16", "float32", "float32"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["weights", "lengths", "bounds", "check_on"])
def test_a_folder_with_the_sweep_of_something_else_is_refused(
    change, copied, toy, lively, request_of, attempts
):
    from tfdistill import models

    model = toy.model
    if change == "weights":
        model = lively(models.build_classifier(toy.config, 3), seed=7)
    others = {
        "lengths": (8,),
        "bounds": {"sqnr_db": 61.0},
        "check_on": toy.encoded.select(range(119)),
    }
    arguments = {**request_of, **{name: others[name] for name in others if name == change}}
    with pytest.raises(errors.OutputExistsError, match=r"another one.*overwrite"):
        sweeping.sweep(model, copied, NAMES, **arguments)
    assert attempts.tried == []

    sweeping.sweep(model, copied, NAMES, overwrite=True, **arguments)
    assert attempts.tried == list(NAMES)
    assert not (copied / "float32").exists()


def test_neither_files_that_no_sweep_made_nor_a_damaged_sweep_are_replaced(toy, attempts, tmp_path):
    (tmp_path / "other" / "float16").mkdir(parents=True)
    with pytest.raises(errors.OutputExistsError, match="other files: float16"):
        sweeping.sweep(toy.model, tmp_path / "other", ["float32"])
    sweeping.sweep(toy.model, tmp_path / "s", ["float32"])
    (tmp_path / "s" / "sweep.json").write_text("{")
    with pytest.raises(errors.OutputExistsError, match="a sweep to resume"):
        sweeping.sweep(toy.model, tmp_path / "s", ["float32"])


def test_examples_that_can_be_read_once_serve_every_row(toy, attempts, tmp_path):
    ids = toy.encoded.row(0)[None]
    batches = iter([{"input_ids": ids, "attention_mask": ids * 0 + 1}])
    sweeping.sweep(toy.model, tmp_path / "s", NAMES, check_on=batches)

    assert attempts.num_examples == [1, 1]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (NAMES, {"lengths": (64,)}, r"lengths: expected 2 .* to 40 tokens"),
        (["float61"], {}, "'float61'"),
        ([], {}, "names: expected at least one"),
        (NAMES, {"quantize": "float32"}, "'quantize'"),
    ],
)
def test_an_argument_that_suits_no_quantization_is_an_error_of_its_own(
    names, options, message, toy, tmp_path
):
    with pytest.raises(errors.ConfigError, match=message):
        sweeping.sweep(toy.model, tmp_path / "s", names, **options)


@pytest.mark.slow
def test_a_sweep_of_the_first_format_is_resumed(swept, copied, toy, request_of, attempts):
    """Rows without the keys that came later, and no lengths next to them."""
    path = copied / results.SWEEP_FILE
    saved = json.loads(path.read_text())
    del saved["lengths"]
    for row in saved["rows"]:
        del row["peak_rss_bytes"]
    files.atomic_write_json(path, saved)

    again = sweeping.sweep(toy.model, copied, NAMES, **request_of)

    assert attempts.tried == []
    assert [row.name for row in again.rows] == list(NAMES)
    assert again.rows[0].size_bytes == swept.rows[0].size_bytes
