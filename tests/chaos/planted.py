"""Planted: runs a module of Python on a core that was built with planted faults.

`python -m chaos.planted MODULE ARGUMENT...`, with the extension module's path in
`GD2FS_PLANTED_CORE`. An installed gd2fs would find its own core: so this one is put in its place
before anything imports it.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

CORE = "gd2fs._core"


def main() -> None:
    spec = importlib.util.spec_from_file_location(CORE, os.environ["GD2FS_PLANTED_CORE"])
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules[CORE] = core
    spec.loader.exec_module(core)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
