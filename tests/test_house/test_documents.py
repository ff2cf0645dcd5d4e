"""What README and guides show exists and is understood by the command line."""

import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "android_demo" / "README.md"]
)
IDS = [str(document.relative_to(ROOT)) for document in DOCUMENTS]


def blocks(document: pathlib.Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text("utf-8"), re.M | re.S)


def command_lines() -> list[str]:
    """Returns every line `tfdistill ...` of a console block, without its comment."""
    lines = [
        line.split("  #")[0].strip()
        for document in DOCUMENTS
        for block in blocks(document, "console")
        for line in block.splitlines()
    ]
    return sorted({line for line in lines if line.startswith("tfdistill ")})


def test_the_readme_opens_with_the_two_commands():
    first, *_ = blocks(ROOT / "README.md", "console")
    before = (ROOT / "README.md").read_text("utf-8").split("```")[0]

    assert [line.split()[0] for line in first.splitlines()] == ["./scripts/demo", "./scripts/test"]
    assert before.strip() == "# tfdistill"


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_every_relative_link_leads_to_a_file(document):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    relative = [link for link in links if "://" not in link]

    assert [link for link in relative if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_every_script_that_is_named_can_be_run(document):
    names = set(
        re.findall(r"(?<![\w/])\.?/?(scripts/[a-z_]+|\.ci/run)\b", document.read_text("utf-8"))
    )

    for name in names:
        assert (ROOT / name).is_file(), name
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} is not executable"


def test_every_decision_has_a_number_of_its_own_and_is_listed():
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    index = (ROOT / "docs" / "adr" / "index.md").read_text("utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")

    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert all(page.name in index and page.name in navigation for page in pages)


@pytest.mark.parametrize("line", command_lines())
def test_every_command_that_is_shown_is_understood(line):
    from tfdistill import cli

    arguments = shlex.split(line)[1:]
    if "--help" in arguments:
        return  # test_cli_help.py
    cli.parser().parse_args(arguments)
