"""A node reads what earlier versions have left."""

from __future__ import annotations

from pathlib import Path

import pytest
from restart import samples


@pytest.mark.parametrize("arena", ["arena-layout-2.gz"])
@pytest.mark.parametrize("records", ["records-format-1"])
def test_an_arena_and_its_records_of_an_earlier_version_are_read(
    memory_folder: Path, arena: str, records: str
):
    samples.unpack(memory_folder, arena, records)

    with samples.serving(memory_folder) as client:
        rooms = [bytearray(len(value)) for value in samples.PAGES.values()]
        sizes = client.pages("ns").get(list(samples.PAGES), rooms).sizes
        assert sizes == [len(value) for value in samples.PAGES.values()]
        assert rooms == list(samples.PAGES.values())
        assert client.get("/ns/whole") == samples.WHOLE
        assert client.get("/ns/parts") == samples.PARTS
        assert client.get("/ns/gone") is None


def test_every_sample_has_its_test():
    tested = {"arena-layout-2.gz", "records-format-1"}
    stored = {path.name for path in samples.FOLDER.iterdir()}
    kept = {name for name in stored if name.startswith(("arena-", "records-"))}

    assert kept == tested
