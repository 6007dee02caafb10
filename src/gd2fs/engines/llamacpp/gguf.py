"""GGUF: what a model file says of itself, read from its header. Enough to size a KV cache."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from gd2fs.errors import InvalidRequest

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ENTRIES_MAX = 1 << 16
TEXT_BYTES_MAX = 1 << 26
ITEMS_MAX = 1 << 24  # of one array: a vocabulary
ITEMS_READ_MAX = 1 << 12  # of one array: a number for every layer; longer ones are skipped
KV_ELEMENT_BYTES = 2  # f16

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
_TEXT, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model's KV cache looks like.

    Attributes:
        name: As the file calls it; empty when it does not.
        ctx_train: Tokens that it was trained on.
        kv_bytes_per_token: Of all layers, keys and values, as f16.
    """

    name: str
    ctx_train: int
    kv_bytes_per_token: int


def read_shape(path: str) -> ModelShape:
    """Read the header of a model file.

    Raises:
        InvalidRequest: It is not GGUF, or does not say what its attention looks like.
    """
    try:
        with open(path, "rb") as file:
            entries = _read_entries(file)
        return _shape_of(entries)
    except (KeyError, struct.error, UnicodeDecodeError, ValueError, EOFError) as error:
        raise InvalidRequest(
            f"cannot read the header of {path}: {error!r}", hint="pass another `--model FILE.gguf`"
        ) from error


def _shape_of(entries: Mapping[str, object]) -> ModelShape:
    kind = entries["general.architecture"]

    def numbers(name: str, default: list[int] | None = None) -> list[int]:
        value = entries.get(f"{kind}.{name}", default)
        values = value if isinstance(value, list) else [value]
        found = [each for each in values if isinstance(each, int) and each > 0]
        if not found or len(found) < len(values):
            raise KeyError(f"{kind}.{name}")
        return found

    heads = numbers("attention.head_count")
    width = [numbers("embedding_length")[0] // max(heads)]
    widths = numbers("attention.key_length", width)[0] + numbers("attention.value_length", width)[0]
    layers = numbers("block_count")[0]
    heads_kv = numbers("attention.head_count_kv", heads)  # one for all layers, or one each
    heads_kv_total = sum(heads_kv) if len(heads_kv) > 1 else layers * heads_kv[0]
    return ModelShape(
        name=str(entries.get("general.name", "")),
        ctx_train=numbers("context_length")[0],
        kv_bytes_per_token=heads_kv_total * widths * KV_ELEMENT_BYTES,
    )


def _read_entries(file: BinaryIO) -> dict[str, object]:
    if file.read(4) != MAGIC:
        raise ValueError("not a GGUF file")
    version, _, count = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in VERSIONS:
        raise ValueError(f"version {version}")
    _check(count, ENTRIES_MAX)
    entries = {}
    for _ in range(count):
        key = _read_text(file)
        entries[key] = _read_value(file, _read_number(file, "<I"))
    return entries


def _read_value(file: BinaryIO, kind: int) -> object:
    if kind == _TEXT:
        return _read_text(file)
    if kind == _ARRAY:
        return _read_array(file)
    return _read_number(file, _NUMBERS[kind])


def _read_array(file: BinaryIO) -> list[object] | None:
    kind, count = struct.unpack("<IQ", _exactly(file, 12))
    _check(count, ITEMS_MAX)
    if kind == _ARRAY:
        raise ValueError("an array of arrays")
    if count <= ITEMS_READ_MAX:
        return [_read_value(file, kind) for _ in range(count)]
    if kind in _NUMBERS:
        file.seek(count * struct.calcsize(_NUMBERS[kind]), 1)
        return None
    for _ in range(count):
        _read_text(file)
    return None


def _read_text(file: BinaryIO) -> str:
    count = _read_number(file, "<Q")
    _check(count, TEXT_BYTES_MAX)
    return _exactly(file, count).decode()


def _read_number(file: BinaryIO, layout: str) -> int:
    return struct.unpack(layout, _exactly(file, struct.calcsize(layout)))[0]


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise EOFError("the file ends in its header")
    return content


def _check(count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"a count of {count}, at most {most} can be")
