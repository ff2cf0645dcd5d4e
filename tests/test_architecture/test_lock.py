"""The lock files agree with setup.py and lead nowhere."""

import ast
import pathlib
import re

import packaging.requirements
import pytest

ROOT = pathlib.Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")


def locked(lock: str) -> list[packaging.requirements.Requirement]:
    lines = (ROOT / lock).read_text().splitlines()
    pins = (line.removesuffix("\\") for line in lines if re.match(r"\w", line))
    return [packaging.requirements.Requirement(pin) for pin in pins]


def required() -> list[str]:
    """Returns what setup.py asks for, the developers' tools included."""
    declared: list[str] = []
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (
            "INSTALL_REQUIRES",
            "EXTRAS_REQUIRE",
        ):
            value = ast.literal_eval(node.value)
            declared += (
                value
                if isinstance(value, list)
                else [line for extra in value.values() for line in extra]
            )
    return declared


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_the_lock_is_exact_and_hashed_and_names_no_index(lock):
    text = (ROOT / lock).read_text()
    pins = locked(lock)
    assert pins
    assert not re.search(r"://|^\s*-[if]|--(extra-)?index|--find-links|--trusted", text, re.M)
    assert all(re.fullmatch(r"==[\w.!+]+", str(pin.specifier)) for pin in pins)
    blocks = re.split(r"^(?=\w)", text, flags=re.M)[1:]
    assert len(blocks) == len(pins)
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_locked_versions_fit_what_setup_asks_for():
    wanted = list(map(packaging.requirements.Requirement, required()))
    pins = locked("requirements.lock")
    for requirement in wanted:
        name = requirement.name.lower().replace("_", "-")
        versions = [next(iter(pin.specifier)).version for pin in pins if pin.name == name]
        assert versions, f"{name} is not locked: run scripts/lock"
        assert all(v in requirement.specifier for v in versions), f"{requirement}: run scripts/lock"
