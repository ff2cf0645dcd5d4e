"""The page of the command line has every command, option and argument, as the program has them."""

import pathlib
import re
import sys

import pytest

from tfdistill import cli

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

import command_reference  # noqa: E402

PARSERS = {parser.prog: parser for parser in command_reference.parsers(cli.parser())}


@pytest.fixture(scope="module")
def sections():
    """The text below each heading of a command, and that in front of the first."""
    parts = re.split(r"^## (.+)$", command_reference.to_markdown(cli.parser()), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_every_command_has_a_section_and_the_site_shows_the_page(sections):
    assert list(sections) == ["", *PARSERS]
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert command_reference.PAGE in settings
    assert "scripts/command_reference.py" in settings


@pytest.mark.parametrize("program", PARSERS)
def test_a_section_has_every_option_with_its_help_and_the_examples(program, sections):
    parser = PARSERS[program]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", sections[program] + sections[""], re.M)
    listed = {option for names, _ in rows for option in re.findall(r"--?[\w-]+", names)}
    assert set(parser.visible_options()) - {"--help-all"} <= listed
    assert all(text for _, text in rows)
    assert "%(" not in sections[program]
    assert all(line.strip() in sections[program] for line in parser.epilog.splitlines()[1:])
