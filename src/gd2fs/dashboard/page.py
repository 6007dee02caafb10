"""Page: put together from its parts at the start, so that a browser fetches one document.

Its policy forbids every request but those to the node it came from: what it runs and how it looks
are named by their hashes, and nothing else counts.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

PARTS = Path(__file__).parent
SCRIPTS = (
    "units",
    "element",
    "chart",
    "grid",
    "table",
    "views",
    "detail",
    "session",
    "whatif",
    "main",
)


@dataclass(frozen=True, slots=True)
class Page:
    """The document and the headers that it is served with."""

    html: bytes
    headers: dict[str, str]

    @classmethod
    def load(cls, parts: Path = PARTS) -> Page:
        """Read the parts and join them."""
        style = (parts / "page.css").read_text(encoding="utf-8")
        script = "\n".join((parts / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
        html = (parts / "page.html").read_text(encoding="utf-8")
        html = html.replace("/*style*/", style).replace("/*script*/", script)
        policy = "; ".join(
            [
                "default-src 'none'",
                f"script-src '{_hash(script)}'",
                f"style-src '{_hash(style)}'",
                "connect-src 'self'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            ]
        )
        headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-cache",
        }
        return cls(html.encode(), headers)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
