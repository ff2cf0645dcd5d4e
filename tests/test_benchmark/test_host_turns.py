"""Files on this host in turns: what a worker reports, failures, throttling, delegates, cores."""

import pytest

from tfdistill import errors
from tfdistill.benchmark import host, measuring
from tfdistill.benchmark.settings import Settings
from tfdistill.tflite import child

QUICK = {"runs": 4, "min_seconds": 0.0, "repetitions": 3, "rounds": 2, "warmup": 1}


def fake_workers(monkeypatch, fault):
    """Replaces worker processes by objects that ask `fault(what, action)` first; lists the open."""
    alive = set()

    class Fake:
        def __init__(self, job, module, *, what, timeout_seconds, error=None):
            fault(what, "start")
            self.what = what
            timed = {"warmup_ms": [1.0], "first_inference_ms": 3.0}
            self.kind = job.get("kind")
            self.report = timed
            if self.kind == "text":
                texts = job["texts"]
                self.report = {"warmup_ms": [1.0], "texts": texts, "ids": [[1] for _ in texts]}
            alive.add(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            alive.discard(self)

        def close(self):
            alive.discard(self)

        def ask(self, question):
            if "delegations" in question:
                return {"delegations": []}
            fault(self.what, "run")
            number, lead_in = question["run"], question["lead_in"]
            taken = {"warmup_ms": [9.0] * lead_in, "samples_ms": [1.0] * number}
            return {**taken, "tokenizer_ms": [0.5] * number} if self.kind == "text" else taken

        def finish(self):
            fault(self.what, "finish")
            return {"peak_rss_bytes": 1}

    monkeypatch.setattr(child, "Child", Fake)
    return alive


def test_before_each_block_come_inferences_that_are_kept_and_do_not_count(
    monkeypatch, tflite_files
):
    fake_workers(monkeypatch, lambda what, doing: None)
    settings = Settings(runs=6, rounds=3, min_seconds=0, lead_in=2, repetitions=1)
    paths = [tflite_files / f"{name}.tflite" for name in ("fast", "slow")]
    for row in host.compare(paths, settings=settings).measurements:
        assert row.samples_ms == (1.0,) * 6 and row.block_runs == 2
        assert row.warmup_ms == (1.0, *[9.0] * 6)  # of the start, then two before each block


def test_an_interruption_carries_what_is_finished_and_ends_all_workers(monkeypatch, tflite_files):
    begun = []

    def fault(what, action):
        if action == "start" and "tokens" in what:
            begun.append(what)
        if len(begun) == 4 and action == "run":  # in the fourth of six repetitions
            raise KeyboardInterrupt

    alive = fake_workers(monkeypatch, fault)
    with pytest.raises(measuring.BenchmarkInterrupted) as caught:
        host.measure(tflite_files / "fast.tflite", settings=Settings(**QUICK))
    (result,) = caught.value.results
    assert len(result.measurements) == 3
    assert all(len(m.samples_ms) == 4 for m in result.measurements)
    assert result.failures == (measuring.INTERRUPTED,)
    assert result.summary
    assert not alive
    assert isinstance(caught.value, KeyboardInterrupt)


def test_a_repetition_on_a_throttling_processor_counts_and_is_flagged(monkeypatch, tflite_files):
    fake_workers(monkeypatch, lambda what, action: None)
    # At first, then before and after each repetition: the first two throttle.
    counts = iter([0, 0, 1, 1, 2, *[2] * 20])
    monkeypatch.setattr("tfdistill.benchmark.environment.throttle_count", lambda: next(counts))
    file = tflite_files / "fast.tflite"
    result = host.measure(file, settings=Settings(lengths=(8,), **QUICK))
    assert len(result.measurements) == 3
    assert any("throttled during some" in note for note in result.notes)
    assert [row.throttled for row in result.summary] == [True]


def test_each_delegate_and_the_mask_are_cases_of_their_own(monkeypatch, tflite_files):
    questions = []
    fake_workers(monkeypatch, lambda what, action: None)
    fake = child.Child

    def record(job, module, **options):
        questions.append(job)
        return fake(job, module, **options)

    monkeypatch.setattr(child, "Child", record)
    monkeypatch.setattr("tfdistill.benchmark.cores.allowed", lambda: [0, 1, 2])
    result = host.measure(
        tflite_files / "fast.tflite",
        settings=Settings(lengths=(8,), delegates=("xnnpack", "none"), affinity="0x6", **QUICK),
    )
    assert {(s.delegate, s.affinity) for s in result.summary} == {("xnnpack", "6"), ("none", "6")}
    timed = [(q["delegate"], q["cores"]) for q in questions if q.get("kind") == "ids"]
    assert sorted(set(map(str, timed))) == ["('none', [1, 2])", "('xnnpack', [1, 2])"]


@pytest.mark.parametrize(
    ("cores", "mask", "threads", "noted"),
    [
        ([0, 1, 2], "4", 2, ["2 threads shared 1 core(s)."]),
        ([0, 1, 2], "6", 2, []),
        ([0, 2], None, 3, ["3 threads shared 2 core(s).", "cores of mask 5 could be used"]),
        ([0, 2], "4", 3, ["3 threads shared 1 core(s)."]),  # the mask is in every row
    ],
)
def test_cores_that_are_fewer_than_threads_or_not_all_are_noted(
    monkeypatch, tflite_files, cores, mask, threads, noted
):
    fake_workers(monkeypatch, lambda what, action: None)
    monkeypatch.setattr("tfdistill.benchmark.cores.allowed", lambda: cores)
    monkeypatch.setattr("tfdistill.benchmark.host.backend.os.cpu_count", lambda: 3)
    settings = Settings(affinity=mask, lengths=[8], threads=[1, threads], **QUICK)
    notes = host.measure(tflite_files / "fast.tflite", settings=settings).notes
    said = sorted(note for note in notes if "cores of" in note or "shared" in note)
    assert len(said) == len(noted)
    assert all(words in note for words, note in zip(noted, said, strict=True))


def test_a_file_for_questions_is_asked_what_fits_into_one_window(export_folder, vocab):
    import dataclasses

    from tfdistill import manifest
    from tfdistill.benchmark import subjects
    from tfdistill.tflite.golden import Example

    subject = subjects.open_subject(export_folder)
    windows = manifest.SpanRecord(
        doc_stride=4,
        max_question_length=4,
        max_answer_length=4,
        n_best=2,
        unanswerable=False,
        null_threshold=0.0,
    )
    task = subject.manifest.task.model_copy(update={"kind": "span", "span": windows})
    card = subject.manifest.model_copy(update={"task": task})
    example = Example((2, 5, 3, 6, 3), (0, 0, 0, 1, 1), "turn", "the")
    window = Example((2, 5, 3, 7, 3), (0, 0, 0, 1, 1))  # of a longer text
    questions = dataclasses.replace(subject, manifest=card, examples=(example, window))
    assert subjects.texts_for([questions]) == {"student": [("turn", "the")]}
    # A file for other texts goes first: its texts are not what the questions are about.
    assert [*subjects.texts_for([subject, dataclasses.replace(questions, name="q")])] == [
        subject.name
    ]


@pytest.mark.parametrize("delegate", ["gpu", "nnapi"])
def test_a_host_has_no_phone_s_delegates(tflite_files, delegate):
    with pytest.raises(errors.BenchmarkError, match="--device adb"):
        host.measure(tflite_files / "fast.tflite", settings=Settings(delegates=(delegate,)))
