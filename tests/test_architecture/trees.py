"""Syntax trees of files, which several tests read: each is parsed once."""

import ast
import functools
import pathlib


@functools.cache
def tree_of(file: pathlib.Path) -> ast.Module:
    return ast.parse(file.read_bytes(), str(file))
