"""Fingerprint: tells the weights of two models apart without reading all of them.

A model's name is what its operator typed: two checkpoints of one name must not share a cache, and
two sizes of one architecture differ in their sizes only until someone fine-tunes. So the texts
beside the weights count in full, and of every weight file its name, its size and samples of its
bytes: a training step changes nearly every tensor.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gd2fs.errors import InvalidRequest

FINGERPRINT_DIGITS = 32  # 128 bits
SAMPLES = 16  # of one file, spread evenly, its first and last bytes among them
SAMPLE_BYTES = 64 << 10
TEXT_BYTES_MAX = 64 << 20
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz")
TEXT_SUFFIXES = (".json", ".txt", ".model", ".jinja")  # index, configuration, tokenizer
DUMMY = "dummy"


class _Hash(Protocol):
    def update(self, text: bytes, /) -> None: ...


def weights_fingerprint(
    model: str, *, load_format: str = "auto", seed: int | None = None, revision: str | None = None
) -> str:
    """32 hexadecimal digits that stand for the weights of ``model``.

    Args:
        model: A folder or a file of weights; or a name, as hubs have them.
        load_format: As the engine was told; ``dummy`` weights are random and follow from the seed.
        seed: Of dummy weights.
        revision: Of a name. A name without one stands for whatever it is today.

    Raises:
        InvalidRequest: A folder without weights, or one that cannot be read.
    """
    sums = hashlib.sha256()
    _add(sums, f"load_format={load_format} revision={revision or ''}".encode())
    if load_format == DUMMY:
        _add(sums, f"seed={seed}".encode())
    path = Path(model)
    try:
        if path.is_dir():
            _add_folder(sums, path, needs_weights=load_format != DUMMY)
        elif path.is_file():
            _add_sampled(sums, path)
        else:
            _add(sums, model.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise InvalidRequest(
            f"cannot fingerprint the weights in {model}: {error}",
            hint="make it readable, or give the fingerprint as `weights`",
        ) from error
    return sums.hexdigest()[:FINGERPRINT_DIGITS]


def _add_folder(sums: _Hash, folder: Path, *, needs_weights: bool) -> None:
    weights = list(_files(folder, WEIGHT_SUFFIXES))
    if needs_weights and not weights:
        raise InvalidRequest(
            f"{folder} has no file of weights ({', '.join(WEIGHT_SUFFIXES)})",
            hint="name the folder of the checkpoint, or give the fingerprint as `weights`",
        )
    for path in _files(folder, TEXT_SUFFIXES):
        _add(sums, path.name.encode("utf-8", "surrogatepass"))
        with open(path, "rb") as file:
            _add(sums, file.read(TEXT_BYTES_MAX))
    for path in weights:
        _add(sums, path.name.encode("utf-8", "surrogatepass"))
        _add_sampled(sums, path)


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Files right in ``folder``; those of hubs are links into another one."""
    return (path for path in sorted(folder.iterdir()) if path.suffix in suffixes and path.is_file())


def _add_sampled(sums: _Hash, path: Path) -> None:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _add(sums, size.to_bytes(8, "little"))
        for at in sample_offsets(size):
            file.seek(at)
            _add(sums, file.read(SAMPLE_BYTES))


def sample_offsets(size: int) -> list[int]:
    """Where the samples of a file of ``size`` bytes begin; a small file is read whole."""
    if size <= SAMPLES * SAMPLE_BYTES:
        return list(range(0, size, SAMPLE_BYTES))
    return [at * (size - SAMPLE_BYTES) // (SAMPLES - 1) for at in range(SAMPLES)]


def _add(sums: _Hash, text: bytes) -> None:
    """With its length, so that no two lists of texts are one."""
    sums.update(len(text).to_bytes(8, "little"))
    sums.update(text)
