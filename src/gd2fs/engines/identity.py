"""Identity: what two engine instances must have in common to share a page of KV cache.

The bytes of a page say nothing of the model that made them. So all that gives them their meaning
is hashed into the namespace, and whoever differs in any of it finds nothing. Ranks of one instance
share a namespace; which rank's part a page is, its key says.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from gd2fs.errors import InvalidRequest

MODEL_CHARACTERS_MAX = 40  # of the model's name in the namespace, for people's eyes
DIGEST_DIGITS = 24  # 96 bits
KEY_PART_MAX = 64
KEY_HASH_BYTES_MAX = 256
IDENTITY_FILE = "identity.json"


@dataclass(frozen=True, slots=True)
class KvIdentity:
    """What gives the bytes of a page their meaning.

    Attributes:
        engine: ``sglang`` or ``vllm``: their pages are cut and named differently.
        model: As the engine serves it.
        weights: Fingerprint of the weights, see ``fingerprint``.
        dtype: Of the cached values.
        layout: How the engine orders the bytes of one page.
        layout_version: Grows when a release of the engine or of the plug-in changes that order.
        page_tokens: Tokens of one page.
        geometry: Sizes that the layout depends on: layers, heads, dimensions.
        ranks: Sizes of the parallel groups that cut a page into parts: ``tp``, ``pp``, ``cp``.
        tag: The operator's own; instances with different tags share nothing.
        extra: Whatever else the bytes depend on.
    """

    engine: str
    model: str
    weights: str
    dtype: str
    layout: str
    layout_version: int
    page_tokens: int
    geometry: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    tag: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("engine", "model", "weights", "dtype", "layout"):
            if not getattr(self, name):
                raise InvalidRequest(
                    f"the identity of a KV cache has no {name}",
                    hint="pages of unknown meaning must not be shared; name it",
                )

    def as_text(self) -> str:
        """All of it as canonical JSON: equal texts, equal meaning."""
        return json.dumps(asdict(self), sort_keys=True, indent=1, ensure_ascii=False)

    def namespace(self) -> str:
        """``ENGINE-MODEL-DIGEST``: readable in front, exact at its end."""
        digest = hashlib.sha256(self.as_text().encode("utf-8", "surrogatepass")).hexdigest()
        model = re.sub(r"[^A-Za-z0-9._]+", "-", self.model.rstrip("/").rpartition("/")[2])
        parts = (self.engine, model[:MODEL_CHARACTERS_MAX].strip("-."), digest[:DIGEST_DIGITS])
        return "-".join(part for part in parts if part)


def page_key(page_hash: str | bytes, *, pool: str = "", rank: str = "") -> bytes:
    """The key of one page: the engine's hash, and which pool and which rank's part it is.

    Raises:
        InvalidRequest: A part is too long, or has a ``/`` where the next part begins.
    """
    text = page_hash.encode() if isinstance(page_hash, str) else page_hash
    if not 0 < len(text) <= KEY_HASH_BYTES_MAX:
        raise InvalidRequest(f"a page's hash of {len(text)} bytes; 1 to {KEY_HASH_BYTES_MAX}")
    return b"%b/%b/%b" % (_part(pool), _part(rank), text)


def _part(text: str) -> bytes:
    if "/" in text or len(text) > KEY_PART_MAX:
        raise InvalidRequest(f"`{text[:KEY_PART_MAX]}` cannot be part of a page's key")
    return text.encode()
