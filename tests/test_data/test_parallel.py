"""Units of work as a pipeline of Apache Beam: the same files, whatever its workers go through."""

import json
import os
import pathlib
import signal
import sys
import threading
from unittest import mock

import apache_beam
import pytest

from tfdistill import errors
from tfdistill.data import parallel, preparation, shard_files
from tfdistill.io import files

DIRECT = ("--runner", "DirectRunner")
REPEATED = (*DIRECT, "--direct_runner_bundle_repeat=2")
THREADS = (*DIRECT, "--direct_num_workers=3", "--direct_running_mode=multi_threading")
PROCESSES = (*DIRECT, "--direct_num_workers=2", "--direct_running_mode=multi_processing")


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.parametrize(
    ("pipeline", "options"),
    [
        (DIRECT, {"next_sentence": True, "shard_bytes": 600}),
        (REPEATED, {}),
        (THREADS, {}),
        pytest.param(
            *(PROCESSES, {"next_sentence": True, "shard_bytes": 600}),
            marks=[pytest.mark.slow, pytest.mark.thorough],
        ),
    ],
)
def test_a_pipeline_writes_the_same_files(pipeline, options, prepare, tmp_path, monkeypatch):
    prepare("here", **options)
    monkeypatch.chdir(tmp_path)
    corpus = prepare("there", pipeline=pipeline, **options)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert corpus.complete and corpus.num_shards > 3


def failing_at(name, error):
    write = shard_files.write_shard

    def broken(encoded, path):
        if pathlib.Path(path).name == name:
            raise error
        return write(encoded, path)

    return mock.patch.object(shard_files, "write_shard", broken)


def test_a_failed_range_is_named_and_the_others_are_kept(prepare, tmp_path, written):
    prepare("whole")
    written.clear()
    cursed = failing_at("part-00003.tfrecord", errors.DataError("the third is cursed"))
    with (
        cursed,
        pytest.raises(errors.DataError, match=r"a\.txt, bytes \d+ to \d+: the third is cursed$"),
    ):
        prepare(pipeline=DIRECT)
    assert not shard_files.read_manifest(tmp_path / "out").complete
    num_shards = shard_files.read_manifest(tmp_path / "out").num_shards
    assert len(written) == num_shards - 1
    written.clear()
    prepare(pipeline=DIRECT, resume=True)
    assert written == ["part-00003.tfrecord"]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_pipeline_that_breaks_says_where_and_goes_on(prepare, tmp_path):
    prepare("whole")
    told = r"bytes \d+ to \d+: OSError.*No space left"
    full = failing_at("part-00002.tfrecord", OSError(28, "No space left on device"))
    with full, pytest.raises(errors.EnvironmentFault, match=told):
        prepare(pipeline=DIRECT)
    # What the breakdown left is good for processes, too.
    prepare(resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_finished_unit_is_passed_over_when_its_bundle_is_tried_again(prepare, written):
    corpus = prepare(pipeline=REPEATED)
    assert len(written) == corpus.num_shards


class _Slow:
    """Work whose tools take their time, and which holds every worker until all have begun."""

    def __init__(self, workers):
        self.loaded, self.together = 0, threading.Barrier(workers)
        self.another = threading.Event()

    def setup(self):
        self.loaded += 1
        if self.loaded > 1:
            self.another.set()
        self.another.wait(0.2)  # as long as a load takes in which another thread could begin one
        return "tools"

    def process(self, unit, tools):
        self.together.wait(10)
        from tfdistill.io import files

        files.atomic_write_text(unit.target, unit.task + tools)


def test_two_workers_at_one_unit_leave_one_file(tmp_path):
    unit = parallel.WorkUnit("the unit", str(tmp_path / "unit.txt"), "done with ")
    work = _Slow(4)
    workers = [threading.Thread(target=parallel._do, args=(work, "token", unit)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    parallel._tools.clear()
    assert contents(tmp_path) == {"unit.txt": b"done with tools"}
    assert work.loaded == 1  # a process of many threads loads a model once


def test_a_killed_preparation_keeps_what_no_manifest_tells_yet(prepare, tmp_path, written):
    prepare("whole")

    def stop(corpus):
        if len(corpus.shards) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(progress=stop)
    path = tmp_path / "out" / "corpus.json"
    manifest = json.loads(path.read_text())
    files.atomic_write_json(
        path, {**manifest, "shards": {}}
    )  # as after a kill that nothing survives
    (entries,) = (tmp_path / "out").glob(".entries-*")
    # A worker of another preparation that is not dead yet has written an entry, too.
    other = tmp_path / "out" / ".entries-0123456789abcdef"
    other.mkdir()
    (other / "part-00004.json").write_text((entries / "part-00001.json").read_text())
    written.clear()
    corpus = prepare(resume=True, pipeline=DIRECT)
    assert sorted(written) == [f"part-{n:05d}.tfrecord" for n in range(4, corpus.num_shards)]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_workers_are_told_absolute_paths(text, tokenizer, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(text.read_bytes())
    monkeypatch.chdir(tmp_path)
    told = []

    def listen(work, units, *options):
        told.extend([work.vocab_file, units[0].target])
        told.extend([units[0].task.shard, units[0].task.span.path])
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "run_pipeline", listen)
    with pytest.raises(KeyboardInterrupt):
        preparation.prepare_corpus("a.txt", tokenizer, "out", pipeline=DIRECT)
    assert len(told) == 4
    assert all(path.startswith(f"{tmp_path}/") for path in told)


def test_workers_that_write_elsewhere_are_an_error(prepare, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_do", lambda work, token, unit: None)
    with pytest.raises(errors.EnvironmentFault, match=r"ended as DONE.*the same path as here"):
        prepare(pipeline=DIRECT)
    assert not shard_files.read_manifest(tmp_path / "out").shards


def test_of_a_worker_that_could_not_begin_the_reason_is_told(prepare, monkeypatch):
    def run(pipeline):
        raise RuntimeError(
            "Traceback\n  File x\nModuleNotFoundError: No module named 'tfdistill'\n\n"
        )

    monkeypatch.setattr(apache_beam.Pipeline, "run", run)
    with pytest.raises(
        errors.EnvironmentFault, match=r"and ModuleNotFoundError.*need tfdistill"
    ) as e:
        prepare(pipeline=DIRECT)
    assert "\n" not in str(e.value)


class _Doomed:
    def __init__(self, begins):
        self.begins = begins

    def setup(self):
        if not self.begins:
            raise ValueError("no tools")

    def process(self, unit, tools):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("begins", [True, False])
def test_a_worker_process_that_ends_early_is_explained(begins, tmp_path):
    units = [parallel.WorkUnit(name, str(tmp_path / name), None) for name in "ab"]
    causes = r"ended before it answered.*fewer --workers.*set-up.*__main__.*--resume"
    with pytest.raises(errors.EnvironmentFault, match=causes):
        list(parallel.run(_Doomed(begins), units, workers=2))


def test_ctrl_c_cancels_the_pipeline(prepare, monkeypatch):
    class Running:
        cancelled = False

        def wait_until_finish(self):
            raise KeyboardInterrupt

        def cancel(self):
            self.cancelled = True

    running = Running()
    monkeypatch.setattr(apache_beam.Pipeline, "run", lambda pipeline: running)
    with pytest.raises(KeyboardInterrupt):
        prepare(pipeline=DIRECT)
    assert running.cancelled


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"pipeline": ("--runner", "Flinq")}, errors.ConfigError, "Flinq"),
        ({"pipeline": (*DIRECT, "--direct_num_worker=4")}, errors.ConfigError, "num_workers'"),
        ({"pipeline": DIRECT, "workers": 2}, errors.DataError, "workers: expected 1"),
        ({"pipeline": DIRECT, "path": "ftp://b/a.txt"}, errors.ConfigError, "s3://, gs:// or"),
    ],
)
def test_a_pipeline_that_cannot_run_is_refused_before_anything_is_written(
    options, kind, message, prepare, tmp_path
):
    with pytest.raises(kind, match=message):
        prepare(**options)
    assert not (tmp_path / "out").exists()


def test_without_beam_the_error_says_what_to_install(prepare, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(errors.EnvironmentFault, match=r"pip install 'tfdistill\[beam\]'"):
        prepare(pipeline=DIRECT)
    assert not (tmp_path / "out").exists()
    prepare()
