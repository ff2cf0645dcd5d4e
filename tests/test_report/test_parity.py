from page_reading import table_of, tree_of

from tfdistill import report
from tfdistill.manifest.confidence import Confidence
from tfdistill.report import run_analysis
from tfdistill.report.sections import parity


def test_the_files_of_all_devices_are_tabled(run_dir, edit):
    def add_variants(card):
        shared = {key: card[key] for key in ("signatures", "parity")}
        for device in ("gpu", "npu"):  # that of an NPU is of an earlier version
            model = {**card["model"], "file": f"model-{device}.tflite"}
            variant = {**shared, "model": model, "quantization": "float32"}
            card.setdefault("variants", {})[device] = variant

    edit(run_dir / "export" / "model.json", add_variants)
    tree = tree_of(report.render_html(report.build(report.collect(run_dir))))
    assert [row[0] for row in table_of(tree, "parity")[1:]] == [
        "studentdynamic_wi8_afp32", "student for gpufloat32", "student for npufloat32",
        "teacherfloat32",
    ]  # fmt: skip


def test_promises_are_tabled_and_formats_that_move_them_named(run_dir, edit):
    assert parity.promises(run_analysis.RunAnalysis(report.collect(run_dir))) is None

    def promise(coverage):
        def add(card):
            sure = {"threshold": 0.75, "coverage": coverage, "error": 0.02}
            sure |= {"others": 90, "others_sure": 0.03}
            needed = {"max_error": 0.01, "rows": 400, "rows_needed": 900}
            card["confidence"] = Confidence.of_file(
                card["model"]["sha256"],
                temperature=1.5,
                num_examples=300,
                promises=(needed, {"max_error": 0.05, "rows": 400, **sure}),
            ).model_dump(mode="json")

        return add

    edit(run_dir / "export" / "model.json", promise(0.84))
    edit(run_dir / "teacher" / "export" / "model.json", promise(0.87))
    page = report.render_html(report.build(report.collect(run_dir)))
    assert table_of(tree_of(page), "promises")[1:] == [
        ["studentdynamic_wi8_afp32", "1%", "–", "–", "–", "400", "900", "–"],
        ["studentdynamic_wi8_afp32", "5%", "84.0%", "2.0%", "0.7500", "400", "–", "3.0%"],
        ["teacherfloat32", "1%", "–", "–", "–", "400", "900", "–"],
        ["teacherfloat32", "5%", "87.0%", "2.0%", "0.7500", "400", "–", "3.0%"],
    ]
    assert "teacher by +3 points at 5%" in page
    edit(run_dir / "teacher" / "export" / "model.json", promise(0.855))
    assert "points at" not in report.render_html(report.build(report.collect(run_dir)))
