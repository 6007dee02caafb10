"""Recovery: what a node that starts found of its former process, in words."""

from __future__ import annotations

from collections.abc import Mapping

Found = Mapping[str, str | int | float | bool]


def facts(found: Found) -> dict[str, int]:
    """What is here again, by name, for the line of a node that is ready. Empty: nothing is kept."""
    names = []
    if found["is_arena_kept"]:
        names += ["pages", "pieces", "bytes"]
    if found["are_records_kept"]:
        names += ["records"]
    return {f"recovered_{name}": int(found[name]) for name in names}


def lines(found: Found, arena: str) -> list[str]:
    """One line about each thing that a node keeps; ``arena`` is where the first one lies."""
    told = []
    if found["is_arena_kept"]:
        told.append(f"{arena}: {_arena(found)}")
    if found["are_records_kept"]:
        told.append(f"records of files: {_records(found)}")
    elif found["is_arena_kept"]:
        told.append(f"records of files are not kept: {found['records_fault']}")
    return told


def _arena(found: Found) -> str:
    if not found["is_arena_attached"]:
        return f"begins empty: {found['arena_fault']}"
    mebibytes = int(found["bytes"]) / (1 << 20)
    text = (
        f"{found['pages']} pages and {found['pieces']} pieces of files are here again, "
        f"{mebibytes:.1f} MiB, in {found['arena_ms']:.0f} ms"
    )
    dropped = {"had expired": "expired", "were not whole": "partial", "made no sense": "unsound"}
    why = [f"{found[key]} {how}" for how, key in dropped.items() if found[key]]
    return f"{text}; {', '.join(why)}" if why else text


def _records(found: Found) -> str:
    if found["records_fault"]:
        return f"begin empty: {found['records_fault']}"
    text = f"{found['records']} are here again, in {found['records_ms']:.0f} ms"
    if found["is_log_torn"]:
        text += "; the last change was not whole, and nobody was told of it"
    return text
