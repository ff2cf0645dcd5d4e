"""Whole pages, compared with the files under pages/: see tests/golden_page.py.

A function below makes each run or comparison what the file is named after.
"""

import pathlib
import re

import golden_page
import numpy as np
import pytest
from test_report import fake_answers, fake_results, fake_run, page_reading

from tfdistill import _version, report
from tfdistill.data import answers
from tfdistill.report.collection import NamedSweep
from tfdistill.results import SweepResults

PAGES = pathlib.Path(__file__).parent / "pages"
METRICS, BENCHMARK = "metrics.json", "benchmark.json"
STUDENT, TEACHER = "export/model.json", "teacher/export/model.json"


def whole(run, change):
    """Nothing is missing, nothing was tested."""


def scored_on_a_test_set(run, change):
    """Scores of a test set, without answers to it."""
    scores = {"teacher": 0.8, "student": 0.72, "file": 0.7}
    scores = {role: {"accuracy": value} for role, value in scores.items()}
    change(METRICS, lambda m: m.update(test_metrics=scores))


def of_other_shapes(run, change):
    """Pruned heads, many stages, no shape in common; a file in a format that nobody asked for."""

    def prune(metrics):
        for model in metrics["models"]:
            if model["role"] == "student":
                model["architecture"] |= {"num_heads": 6, "head_size": 16}
            if model["name"] == "no_teacher":
                model["architecture"]["num_layers"] = 4
            if model["stages"] == ["general", "intermediate", "prediction"]:
                model["stages"] = ["general", "intermediate_augmented", "prediction_augmented"]

    change(METRICS, prune)
    (run / "recipe.yaml").write_text("export:\n  quantize: dynamic_wi8_afp32\n")
    change(STUDENT, lambda card: card.update(quantization="weight_only_wi8_afp32"))


def correlated(run, change):
    """A correlation, one seed, and a file that was made to fit."""

    def keep_one(metrics):
        metrics["task"]["primary_metric"] = "matthews"
        metrics["models"] = [m for m in metrics["models"] if m["seed"] == 1]
        for model in metrics["models"]:
            model["metrics"] = {"matthews": model["metrics"]["accuracy"] - 0.4, "accuracy": None}

    change(METRICS, keep_one)
    (run / "recipe.yaml").write_text("export:\n  quantize: dynamic_wi8_afp32\n  size_mb: 4.5\n")
    layers = {"quantized_layers": {"word_embeddings": "dynamic_wi4_afp32"}}
    change(STUDENT, lambda card: card.update(layers))


def with_baselines(run, change):
    """Baselines below the student, and a teacher that left examples out."""
    rows = [
        {"name": "majority", "metrics": {"accuracy": 0.5}},
        {"name": "tfidf", "metrics": {"accuracy": 0.8}, "parameters": 50_000, "latency_ms": 0.3},
        {"name": "frozen_teacher", "metrics": {"accuracy": 0.85}, "parameters": 22_000_000},
        {"name": "no_teacher", "metrics": {"accuracy": 0.81}, "parameters": 7_330_370},
    ]
    change(METRICS, lambda m: m.update(baselines=rows))
    change(METRICS, lambda m: m["models"][0].update(num_examples=100))
    (run / "recipe.yaml").write_text("export:\n  quantize: dynamic_wi8_afp32\n")


def beaten(run, change):
    """A baseline above the student."""
    rows = [{"name": "majority", "metrics": {"accuracy": 0.5}}]
    rows.append({"name": "tfidf", "metrics": {"accuracy": 0.89}, "seconds": 2.0})
    change(METRICS, lambda m: m.update(baselines=rows))


def above_its_teacher(run, change):
    """One seed is better than the teacher, which is no share above one."""

    def one_seed(metrics):
        metrics["models"] = [m for m in metrics["models"] if m["seed"] == 1]
        for model in metrics["models"]:
            model["metrics"]["accuracy"] = 0.93 if model["name"] == "full" else 0.9

    change(METRICS, one_seed)


def doubtful(run, change):
    """Synthetic data, caveats, notes, files that were checked on ids or not at all, a busy host."""

    def disturb(benchmark):
        benchmark["notes"] = ["Load average 3"]
        for row in benchmark["summary"]:
            row["busy"] = row["model"] == "teacher"
            row["throttled"] = row["threads"] == 2
        for row in benchmark["comparisons"]:  # of several threads, no ratio can be told
            row["speedup_ci"] = row["speedup_ci"] if row["threads"] == 1 else None

    change(METRICS, lambda m: m.update(synthetic_data=True, caveats=["3 of 40 texts are known."]))
    change(BENCHMARK, disturb)
    change(STUDENT, lambda card: card["parity"].update(inputs="random"))
    change(TEACHER, lambda card: card.update(parity=None))


def with_promises(run, change):
    """Files for other devices, and promises that move from format to format."""

    def add_variants(card):
        shared = {key: card[key] for key in ("signatures", "parity")}
        for device in ("gpu", "npu"):  # that of an NPU is of an earlier version
            model = {**card["model"], "file": f"model-{device}.tflite"}
            variant = {**shared, "model": model, "quantization": "float32"}
            card.setdefault("variants", {})[device] = variant

    def promise(coverage, requests=None, **more):
        sure = {"threshold": 0.75, "coverage": coverage, "error": 0.02}
        sure |= {"others": 90, "others_sure": 0.03}
        needed = {"max_error": 0.01, "rows": 400, "rows_needed": 900}
        promises = (needed, {"max_error": 0.05, "rows": 400, **sure})
        agreed = {"threshold": 0.8, "coverage": coverage, "disagreement": 0.01}
        agreements = (
            {"max_disagreement": 0.01, "rows": 200, "rows_needed": 230},
            {"max_disagreement": 0.02, "rows": 200, **agreed, "requests": requests},
        )
        more |= {"agreements": agreements, "answered_by": "a model 3"}
        return lambda card: fake_answers.promise(card, *promises, temperature=1.5, **more)

    recall = {"min_recall": 0.99, "rows": 344}
    figures = {"recall": 0.994, "needless": 0.0312}
    figures |= {"recall_of_path": 0.91, "needless_of_path": 0.0042}
    change(STUDENT, add_variants)
    change(STUDENT, promise(0.84, 0.9, recall={**recall, "threshold": 0.0123, **figures}))
    change(TEACHER, promise(0.87, recall={**recall, "rows_needed": 460, "possible": 0.9866}))


def answered(run, change):
    """What teacher, student and file answered to the development set."""
    fake_answers.add(run)


def unchanged(run, change):
    """No answer changed, which is no proof of no difference."""
    fake_answers.add(run)
    fake_answers.write_file(run, [0], [0])


def clearly_worse(run, change):
    """A file that lost far more than chance would; its temperature is known."""
    fake_answers.add(run)
    fake_answers.write_file(run, [0], range(15))
    change(STUDENT, fake_answers.promise)


def above_by_chance(run, change):
    """A baseline above the student, by no more than chance, of rows that all taught."""
    fake_answers.add(run)
    row = {"name": "tfidf", "metrics": {"accuracy": 0.975}, "folder": "baselines/tfidf"}
    change(METRICS, lambda m: m.update(baselines=[row]))
    for at in (-1, -2, -3):  # the mean over the seeds is that of the answers
        change(METRICS, lambda m, at=at: m["models"][at].update(metrics={"accuracy": 0.925}))
    labelled = fake_answers.answers_of({"model": fake_answers.logits_of([0])}, with_texts=False)
    answers.write(labelled, run / "baselines" / "tfidf" / answers.FILE_NAME)
    (run / "recipe.yaml").write_text("data: {cross_fitted: true}\n")


def answered_test_set(run, change):
    """Answers to a test set, which give the headline."""
    fake_answers.add(run)
    scores = {"teacher": 0.975, "student": 0.925, "file": 0.6}
    scores = {role: {"accuracy": value} for role, value in scores.items()}
    change(METRICS, lambda m: m.update(test_metrics=scores))
    wrong = {"teacher": [0], "student": [0, 1, 2], "file": range(16)}
    logits = {role: fake_answers.logits_of(those) for role, those in wrong.items()}
    logits["majority"] = np.tile([[0.1, 0.0]], (40, 1))
    (run / "test").mkdir()
    labelled = fake_answers.answers_of(logits, model_sha256="b" * 64)
    answers.write(labelled, run / answers.TEST_FILE)


def like_for_like(run, change):
    """The teacher has a file of the student's format, too."""
    fake_run.add_teacher_like_student(run)


def turned(run, change):
    """Comparisons that were recorded the other way round."""

    def turn(benchmark):
        benchmark["measurements"] = []  # whose samples say something else
        for row in benchmark["comparisons"]:
            row["baseline"], row["candidate"] = row["candidate"], row["baseline"]
            row.update(speedup=0.1, speedup_ci=[0.08, 0.125], faster=False)

    change(BENCHMARK, turn)


def renamed(run, change):
    """Files that were measured by other names, and compared with nothing: no claim is made."""

    def rename(benchmark):
        for part in ("models", "measurements", "summary", "end_to_end"):
            for row in benchmark[part]:
                key = "name" if part == "models" else "model"
                row[key] = {"teacher": "big", "student": "small"}[row[key]]
        benchmark["comparisons"] = []

    change(BENCHMARK, rename)


def of_another_file(run, change):
    """The measured student is another file; its accuracy is written like the teacher's."""
    change(BENCHMARK, lambda b: b["models"][1].update(sha256="c" * 64))
    change(STUDENT, lambda card: card["parity"].update(file_metrics={"accuracy": 0.9001}))


def without_a_teacher(run, change):
    """Nothing is claimed about a teacher; the recipe says which variant had none."""

    def drop(metrics):
        metrics["models"] = [m for m in metrics["models"] if m["name"] == "no_teacher"]
        metrics["chosen"] = "students/no_teacher/seed-2"
        for model in metrics["models"]:
            model.update(name="alone", stages=["gold"])

    change(METRICS, drop)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(recipe + "  gold: {kind: labels}\n")


def without_models(run, change):
    """Half a run: measured, and not described."""
    (run / METRICS).unlink()


def without_latency(run, change):
    """Half a run: described, and not measured."""
    (run / BENCHMARK).unlink()


def on_a_phone_too(run, change):
    """A result of another device beside the run's own has a section of its own."""
    models = [
        fake_results.Model(name, fake_run.SHA[name], {128: p50}, fake_run.card(name))
        for name, p50 in (("teacher", 410.0), ("student", 23.0))
    ]
    phone = fake_results.result(models, kind="phone", backend="benchmark_model", blocks=True)
    fake_run.write_json(run / "benchmark-ba9876543210.json", phone)


RUNS = (
    *(whole, scored_on_a_test_set, of_other_shapes, correlated, with_baselines, beaten),
    *(above_its_teacher, doubtful, with_promises, answered, unchanged, clearly_worse),
    *(answered_test_set, like_for_like, turned, renamed, of_another_file, without_a_teacher),
    *(without_models, without_latency, on_a_phone_too, above_by_chance),
)


@pytest.mark.parametrize("make", RUNS, ids=[make.__name__ for make in RUNS])
def test_the_page_of_a_run(make, run_dir, edit):
    make(run_dir, lambda name, work: edit(run_dir / name, work))
    value = report.build(report.collect(run_dir))
    check(value, make.__name__)


def test_the_page_of_an_export_outside_a_run(run_dir):
    fake_answers.add(run_dir)
    text = report.render_markdown(report.build(report.collect(run_dir / "export")))
    golden_page.check(text, PAGES / "export.md")


def in_html(value):
    """The page without its style and the version."""
    page = re.sub("(?s)<style>.*</style>", "", report.render_html(value))
    return page.replace(f"tfdistill {_version.__version__}", "tfdistill VERSION")


def test_the_page_in_html_and_its_tables_as_csv(run_dir):
    value = report.build(report.collect(run_dir))
    golden_page.check(in_html(value), PAGES / "whole.html")
    written = report.render_csv(value)
    texts = (f"{name}\n{written[name]}" for name in ("latency.csv", "models.csv"))
    golden_page.check("\n".join(texts), PAGES / "whole.csv")


def check(value, name):
    """Compares a page with its file, and reads it as a program and as a screen reader does."""
    golden_page.check(report.render_markdown(value), PAGES / f"{name}.md")
    page = report.render_html(value)
    assert page_reading.requests_of(page) == []
    assert page_reading.faults_of(page_reading.tree_of(page)) == []


GOOD = {"verdict": "good", "file_metrics": {"accuracy": 0.9}, "primary_metric": "accuracy"}
SWEPT = [
    {**GOOD, "name": "float32", "size_bytes": 50_000_000, "p50_ms": {"32": 1, "128": 5}}
    | {"busy_lengths": [128]},
    {**GOOD, "name": "dynamic_wi8_afp32", "size_bytes": 14_000_000, "p50_ms": {"128": 2}},
    {**GOOD, "name": "int4", "verdict": "beyond bounds", "size_bytes": 1, "p50_ms": {"128": 2}},
    {**GOOD, "name": "none", "verdict": "impossible", "why": "expected widths"},
    {**GOOD, "name": "unmeasured", "size_bytes": 1},
]
SWEEP = SweepResults.model_validate({"format_version": 1, "rows": SWEPT})


def devices(fr):
    """A host, an emulated device and a phone: each has a section, no table holds two."""
    return fr.many()


def slowed_host(fr):
    """A host that slowed down is not called hot."""
    host = fr.many()["host"]
    host["summary"][0]["throttled"] = True
    return {"host": host}


def measured_twice(fr):
    """Files that two results measured are as many files and twice as many measurements."""
    return {"host": fr.many()["host"], "again": fr.many()["host"]}


def of_two_tasks(fr):
    """Two tasks have charts of their own; a file without a manifest is measured, not judged."""
    cola = fr.model("b", number=2, task="cola", metric="matthews")
    return {"host": fr.result([fr.model("a"), cola, fr.Model("bare", "e" * 64, {128: 1.0})])}


def of_all_sorts(fr):
    """Files that are not drawn: of another length, of unknown accuracy; of fewer examples."""
    bare, short = fr.Model("bare", "e" * 64, {128: 1.0}), fr.model("short", number=2)
    short.p50_ms[32] = short.p50_ms.pop(128)
    fewer = fr.model("fewer", number=4, accuracy=0.7, num_examples=200)
    return {"host": fr.result([fr.model("whole"), bare, short, fewer])}


def answered_by_the_phone(fr):
    """The device's own answers count where all files have them."""
    models = [fr.model(name, number=i) for i, name in enumerate("ab", start=1)]
    answers = [fr.answers("a", 0.81), fr.answers("b", 0.79)]
    return {"phone": fr.result(models, kind="phone", answers=answers)}


def answered_through_another_delegate(fr):
    """Answers of one delegate say nothing about another."""
    models = [fr.model(name, number=i) for i, name in enumerate("ab", start=1)]
    answers = [fr.answers(name, 0.5, delegate="gpu") for name in "ab"]
    return {"phone": fr.result(models, kind="phone", answers=answers)}


def undecided(fr):
    """Files that take equally long, and one repetition: neither is called faster."""
    models = [fr.model(name, number=i) for i, name in enumerate("ab", start=1)]
    value = fr.result(models, threads=(1, 2), comparisons=True)
    value["comparisons"][1].update(speedup=4.0, speedup_ci=[3.9, 4.1], faster=None)
    return {"host": value}


def one_file(fr):
    """One file is no choice."""
    return {"host": fr.result([fr.model("only")])}


def no_file(fr):
    """Nothing was measured."""
    return {"host": fr.result([])}


def swept(fr):
    """A sweep of quantizations, beside nothing else."""
    return {}


COMPARED = (
    *(devices, slowed_host, measured_twice, of_two_tasks, of_all_sorts, undecided, one_file),
    *(no_file, swept, answered_by_the_phone, answered_through_another_delegate),
)


@pytest.mark.parametrize("make", COMPARED, ids=[make.__name__ for make in COMPARED])
def test_the_page_of_a_comparison(make):
    sweeps = (NamedSweep("swept", SWEEP),) if make in (devices, swept) else ()
    more = {"sweeps": sweeps, "unmeasured": ("new",) if sweeps else ()}
    value = report.build(fake_results.collected(make(fake_results), **more))
    check(value, make.__name__)
    if make == devices:
        golden_page.check(in_html(value), PAGES / "devices.html")


def test_every_row_of_a_table_has_as_many_cells_as_its_head(run_dir, edit):
    edit(run_dir / "metrics.json", lambda m: m["task"].update(name="a|b\n| c |"))
    text = report.render_markdown(report.build(report.collect(run_dir)))
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(blocks) == 9
    for block in blocks:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1
