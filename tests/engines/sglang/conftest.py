"""What the tests of SGLang start from."""

from __future__ import annotations

import sys
from pathlib import Path

CPU = Path(__file__).resolve().parent / "cpu"  # stand-ins for what needs an accelerator

sys.path.insert(0, str(CPU))
