"""Every error of the product says what was expected, what came, and what to do."""

import ast
import pathlib
import re

import pytest
from test_architecture.trees import tree_of

ROOT = pathlib.Path(__file__).parents[2]
# Verdicts on a file that was written and refused: they list the differences instead.
VERDICTS = {"ParityError"}
# The start of a message -> why it has another form.
OTHERWISE = {
    "{} is not built as it should be and was not written:": "lists what is wrong with the file",
    "No quantization is possible:": "lists each quantization with its reason",
    "--set {}: no stage {}. {}": "the nearest stage is all there is to say",
}


def error_classes():
    tree = ast.parse((ROOT / "tfdistill" / "errors.py").read_bytes())
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def literal_of(node):
    """The text of a literal or an f-string with {} for each value, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (literal_of(node.left) or "{}") + (literal_of(node.right) or "{}")
    return None


def formless(root):
    """Yields file, line and text of each error whose text is written out in another form."""
    classes = error_classes()
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if name not in classes - VERDICTS or isinstance(node.args[0], ast.Starred):
                continue
            if len(node.args) == 2 and not isinstance(node.args[1], ast.Starred):
                yield f"{file.relative_to(root.parent)}:{node.lineno}: what and expected alone"
            text = literal_of(node.args[0]) if len(node.args) == 1 else None
            if text is None or (": expected " in text and ", received " in text):
                continue
            if re.match(r"\{\}(\n| \{\}$)", text):  # a message and what comes after it
                continue
            if not any(text.startswith(start) for start in OTHERWISE):
                yield f"{file.relative_to(root.parent)}:{node.lineno}: {text}"


@pytest.mark.parametrize("package", ["tfdistill", "export"])
def test_every_error_says_what_was_expected_and_what_came(package):
    assert list(formless(ROOT / package)) == []


@pytest.mark.parametrize(
    ("line", "is_formless"),
    [
        ('errors.DataError("table", "a label", "none")', False),
        ("errors.DataError(*parts)", False),
        ('errors.DataError(f"{path}: expected a label, received {label}.")', False),
        ('errors.DataError(errors.explain("table", "a label", "none"))', False),
        ('errors.DataError("The table has no label.")', True),
        ('errors.DataError(f"{path} has" + " no label")', True),
        ('DataError("table", "a label")', True),
    ],
)
def test_another_form_is_noticed(tmp_path, line, is_formless):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text(line)
    assert bool(list(formless(tmp_path / "package"))) == is_formless
