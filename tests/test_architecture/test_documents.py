"""What README and guides show exists and is understood by the command line."""

import ast
import csv
import json
import os
import pathlib
import re
import shlex

import pytest
from test_architecture.trees import tree_of

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "android_demo" / "README.md"]
)


def blocks(document: pathlib.Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text("utf-8"), re.M | re.S)


def command_lines() -> list[str]:
    """Returns every command `tfdistill ...` of a console block, without its comment."""
    lines = [
        line.split("  #")[0].strip()
        for document in DOCUMENTS
        for block in blocks(document, "console")
        for line in block.replace("\\\n", "").splitlines()
    ]
    return sorted({line for line in lines if line.startswith("tfdistill ")})


def test_the_first_screen_of_the_readme_installs_shows_and_runs():
    text = (ROOT / "README.md").read_text("utf-8")
    purpose = text.split("\n\n")[1]
    first = "\n".join(text.splitlines()[:55])

    assert len(re.findall(r"\.(?:\s|$)", purpose)) <= 2 and purpose.endswith(".")
    assert re.search(r"^!\[.+\]\(docs/pictures/", first, re.M)
    shown = (
        "pip install",
        "print(tfdistill.evaluate",
        "to_tflite",
        "./scripts/demo",
        "./scripts/test",
    )
    positions = [first.find(words) for words in shown]
    assert -1 not in positions and positions == sorted(positions)
    assert len(text.splitlines()) <= 120


def test_every_link_script_and_page_that_is_named_exists():
    faults = [
        (document.name, link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
        if "://" not in link and not (document.parent / link).exists()
    ]
    assert faults == []
    pattern = r"(?<![\w/])\.?/?(scripts/(?:[a-z_-]+/)*[a-z_-]+(?:\.py)?|\.ci/run)\b"
    faults = [
        (document.name, name)
        for document in DOCUMENTS
        for name in re.findall(pattern, document.read_text("utf-8"))
        if not os.access(ROOT / name, os.X_OK) or (ROOT / name).is_dir()
    ]
    assert faults == []
    folders = [ROOT / name for name in ("tfdistill", "export", "scripts", "tests")]
    suffixes = {".py", ".yaml", ""}
    named = {
        (str(file.relative_to(ROOT)), name.rstrip("."))
        for folder in folders
        for file in folder.rglob("*")
        if file.suffix in suffixes and file.is_file()
        for name in re.findall(
            r"(?<![\w/.-])docs/[\w./-]+\.\w+", file.read_text("utf-8", "replace")
        )
    }
    assert len(named) > 10
    assert sorted(place for place in named if not (ROOT / place[1]).is_file()) == []


def test_every_decision_has_a_number_of_its_own_and_is_listed():
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    index = (ROOT / "docs" / "adr" / "index.md").read_text("utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")

    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert all(page.name in index and page.name in navigation for page in pages)


def test_the_files_of_the_router_have_the_rows_that_its_page_names():
    folder = ROOT / "docs" / "tutorials" / "router"
    counts = {}
    for name in ("phrases", "held-out", "more-phrases"):
        with open(folder / f"{name}.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        labels = [row["intent"] for row in rows]
        counts[name] = {labels.count(label) for label in labels}, len(set(labels))
        assert len({row["phrase"] for row in rows}) == len(rows)
    assert counts == {"phrases": ({8}, 23), "held-out": ({5}, 23), "more-phrases": ({8}, 1)}
    assert len((folder / "out-of-scope.txt").read_text("utf-8").splitlines()) == 40


def test_the_figures_of_the_readme_are_those_of_the_records():
    pages = [ROOT / "docs" / "benchmarks" / name for name in ("quickstart.md", "pruned-results.md")]
    recorded = "".join(file.read_text("utf-8") for file in pages)
    text = (ROOT / "README.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| .*\d", line)]
    figures = [figure for row in rows for figure in re.findall(r"\d+\.\d+", row)]

    assert len(figures) >= 10
    assert [figure for figure in figures if figure not in recorded] == []


def test_every_command_that_is_shown_is_understood_and_names_all_that_its_recipe_needs():
    """Files that are not there are all that may be missing; no key is unknown."""
    from tfdistill import cli, config

    lines = [line for line in command_lines() if "--help" not in line]  # test_cli_help.py
    assert len(lines) > 50
    for line in lines:
        try:
            args = cli.parser().parse_args(shlex.split(line)[1:])
        except SystemExit:
            pytest.fail(f"not understood: {line}")
        if " run " in line:
            missing = config.missing_inputs(config.load_recipe(args.recipe, args.set))
            assert [fault for fault in missing if not fault.endswith("is not there")] == [], line


def texts_of_the_product() -> str:
    """Returns every string of the code, the parts of formatted ones too, a line each."""
    files = [
        file for name in ("tfdistill", "export", "scripts") for file in (ROOT / name).rglob("*.py")
    ]
    nodes = [node for file in files for node in ast.walk(tree_of(file))]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return "\n".join(
        [
            *(text for text in constants if isinstance(text, str)),
            (ROOT / "scripts/setup").read_text(),
        ]
    )


def test_every_message_of_the_troubleshooting_page_is_one_of_the_product():
    page = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text("utf-8")
    messages = re.findall(r"^\| `(.+?)` \|", page, re.M)
    code = texts_of_the_product()

    assert len(messages) > 30
    for message in messages:
        for part in re.split(r"\.\.\.|: expected |, received ", message):
            words = part.strip(" ,.:()")
            assert words in code, f"{message}: no {words!r} in the code"


def test_the_figures_of_the_page_on_costs_are_recorded_or_follow_from_records():
    page = (ROOT / "docs" / "benchmarks" / "cost.md").read_text("utf-8")
    record = json.loads((ROOT / "docs" / "benchmarks" / "training.json").read_text())
    recorded = " ".join(record["details"].values())
    rates = re.findall(r"(?<= )[\d.]+ samples/s\b", page)
    flops = record["settings"]["flops_per_example"]
    rows = re.findall(r"\| 3 x ([\d.]+) million \| ([\d,]+) h \| ([\d.]+) h \| ([\d.]+) h \|", page)

    assert len(rates) == 2 and [rate for rate in rates if rate not in recorded] == []
    assert f"{flops / 1e9:.1f} GFLOP" in page and len(rows) == 2
    for millions, cores, a100, h100 in rows:
        examples = 3e6 * float(millions)
        assert abs(examples / 10.26 / 3600 / float(cores.replace(",", "")) - 1) < 0.01
        for hours, peak in ((a100, 312e12), (h100, 989e12)):
            assert abs(examples * flops / (peak * 0.3 * 3600) / float(hours) - 1) < 0.03
