"""Prints requirements of pyproject.toml, one a line: `build`, or the name of an extra."""

import sys
import tomllib
from pathlib import Path

# Without them scikit-build-core would look for Debian's; with them PyPI's are enough.
BUILD_TOOLS = ["cmake>=3.24", "ninja"]

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
for group in sys.argv[1:]:
    if group == "build":
        wanted = project["build-system"]["requires"] + BUILD_TOOLS
    else:
        wanted = project["project"]["optional-dependencies"][group]
    print("\n".join(wanted))
