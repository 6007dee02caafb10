"""The stub of the native module names what is there, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gd2fs import _core

STUB = ast.parse(Path(__file__).parent.parent.joinpath("src/gd2fs/_core.pyi").read_text("utf-8"))
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
ALIASES = {"Key"}  # of types, for the stub alone
UNSEEN = {"__init__", "__buffer__"}  # a buffer has no name before Python 3.12


def names_in(body: list[ast.stmt]) -> set[str]:
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return defined | {ast.unparse(node.target) for node in body if isinstance(node, ast.AnnAssign)}


def public_names(of: object) -> set[str]:
    return {name for name in vars(of) if not name.startswith("_")}


def test_the_module_has_the_names_of_its_stub():
    assert names_in(STUB.body) - ALIASES == public_names(_core)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_names_of_its_stub(name):
    assert names_in(CLASSES[name].body) - UNSEEN == public_names(getattr(_core, name))
