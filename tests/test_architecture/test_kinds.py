"""Kinds of tasks and heads of models are objects: nothing else compares their names."""

import ast
import pathlib

import pytest
from test_architecture.trees import tree_of

from export.model import heads as output_heads
from tfdistill import analysis, tasks
from tfdistill.losses import heads as answer_heads
from tfdistill.models import heads
from tfdistill.weights import hf_config

ROOT = pathlib.Path(__file__).parents[2]
HEADS = {*heads.KINDS, *(kind.head for kind in tasks.KINDS.values())}
NAMES = {*tasks.KINDS, *HEADS}
# What holds a kind or a head; other words may be "none" or "token", too.
SUBJECTS = ("kind", "head", "task_kind", "task_head", "head_of", "own", "resolved")


def of_kinds(node: ast.expr) -> bool:
    """Whether an expression is a name or an attribute that holds a kind or a head."""
    if isinstance(node, ast.Call):
        node = node.func
    of_stage = getattr(getattr(node, "value", None), "id", "") == "stage"
    return not of_stage and getattr(node, "attr", getattr(node, "id", "")) in SUBJECTS


def constants(node: ast.expr) -> set[str]:
    return {
        child.value
        for child in ast.walk(node)
        if isinstance(child, ast.Constant) and isinstance(child.value, str)
    }


def tuples_of_names(tree: ast.Module) -> set[str]:
    """Names of a module's constants that are tuples, lists or sets of kinds or heads."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        and isinstance(node.value, (ast.Tuple, ast.List, ast.Set, ast.Constant))
        and constants(node.value)
        and constants(node.value) <= NAMES
    }


def comparisons(tree: ast.Module) -> list[int]:
    """Lines that compare with the name of a kind or head."""
    listed = tuples_of_names(tree)
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = any(
                constants(side) & NAMES or getattr(side, "id", "") in listed for side in sides
            )
            if named and any(of_kinds(side) for side in sides):
                lines.append(node.lineno)
        elif isinstance(node, ast.MatchValue) and constants(node) & NAMES:
            lines.append(node.value.lineno)
    return lines


def test_no_module_compares_the_name_of_a_kind_or_head():
    faults = [
        f"{file.relative_to(ROOT)}:{line}"
        for package in ("tfdistill", "export")
        for file in sorted((ROOT / package).rglob("*.py"))
        if "tasks" not in file.relative_to(ROOT).parts
        for line in comparisons(tree_of(file))
    ]
    assert faults == []  # ask the kind: `spec.traits`, `models.read_head(model).traits`, ...


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ('x = task.kind == "token"', [1]),
        ('x = models.head_of(model) != "embedding"', [1]),
        ('x = head in ("token", "span")', [1]),
        ('_OWN = ("token", "span")\nx = task.head not in _OWN', [2]),
        ('_OWN = "embedding"\nx = kind == _OWN', [2]),
        ('match kind:\n    case "span":\n        x = 1', [2]),
        ('x = TABLE[task.kind]\ny = stage.kind == "joint"\nz = name == "token"', []),
    ],
)
def test_a_comparison_is_found_and_another_word_or_lookup_is_none(line, faults):
    assert comparisons(ast.parse(line)) == faults


@pytest.mark.parametrize("name", tasks.KINDS)
def test_every_kind_has_its_head_in_every_package(name):
    kind = tasks.KINDS[name]
    head = heads.head_for(kind.head, 3)
    assert head.traits.over_tokens == kind.over_tokens and head.traits.vectors == kind.vectors
    written = output_heads.HEADS[head.kind]
    assert written.per_token == kind.over_tokens and written.vectors == kind.vectors
    assert written.classifies == head.traits.classifies
    assert written.decodes_spans == kind.decodes_spans == head.traits.over_positions
    assert (kind.head in answer_heads.HEADS) != kind.vectors  # vectors have losses of their own
    if not kind.vectors:
        assert answer_heads.HEADS[kind.head].model_head == head.kind
    assert head.kind in hf_config._ARCHITECTURES
    spec = tasks.TaskSpec("t", "a", "b", "c", kind=name)
    assert analysis.has_linear(spec) == kind.row_a_text
