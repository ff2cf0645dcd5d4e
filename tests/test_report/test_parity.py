from page_reading import table_of, tree_of

from tfdistill import report
from tfdistill.report import run_analysis
from tfdistill.report.sections import parity


def test_the_files_of_all_devices_and_what_accelerators_took_of_them_are_tabled(run_dir, edit):
    results = report.collect(run_dir)
    assert parity.accelerators(run_analysis.RunAnalysis(results)) is None  # files for CPUs alone

    def add_variants(card):
        shared = {key: card[key] for key in ("signatures", "parity")}
        for device, accelerator, verdict in (
            ("gpu", "gpu", "whole"),
            ("npu", "intel-npu", "unavailable"),
        ):
            model = {**card["model"], "file": f"model-{device}.tflite"}
            outcome = {"name": accelerator, "title": f"A {device}", "verdict": verdict}
            if verdict == "whole":
                outcome |= {
                    "delegated": {"len32": 96, "len64": None},
                    "operators": {"len32": 97, "len64": 97},
                    "sqnr_db": {"len32": 44.04, "len64": None},
                }
            variant = {
                **shared,
                "model": model,
                "quantization": "float32",
                "accelerators": [outcome],
            }
            card.setdefault("variants", {})[device] = variant

    edit(run_dir / "export" / "model.json", add_variants)
    tree = tree_of(report.render_html(report.build(report.collect(run_dir))))
    assert [row[0] for row in table_of(tree, "parity")[1:]] == [
        "studentdynamic_wi8_afp32", "student for gpufloat32", "student for npufloat32",
        "teacherfloat32",
    ]  # fmt: skip
    assert table_of(tree, "accelerators")[1:] == [
        ["student for gpufloat32", "A gpu", "whole", "len32", "96 of 97", "44.0"],
        ["student for gpufloat32", "A gpu", "whole", "len64", "–", "equal"],
        ["student for npufloat32", "A npu", "unavailable", "–", "–", "–"],
    ]
