"""Topology: the GPUs and NICs of this machine, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from gd2fs.cli.output import WIDTH_MAX, print_json, print_warning, printable, whole_lines
from gd2fs.cli.target import JsonOption

if TYPE_CHECKING:
    from gd2fs.topology import Distance, Gpu, Nic, Topology

    Row: TypeAlias = tuple[Gpu | Nic, list[tuple[Gpu | Nic, Distance]]]
    Rows: TypeAlias = list[Row]

STYLES = {"PIX": "green", "PXB": "green", "SYS": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("topology")(topology)


def topology(
    count: Annotated[
        int, typer.Option("--nearest", min=1, metavar="N", help="NICs to name for each GPU")
    ] = 1,
    as_json: JsonOption = False,
    root: Annotated[str, typer.Option(hidden=True)] = "/",
) -> None:
    """Show GPUs and NICs of this machine, how far apart they are, and which are nearest.

    Distances are in the words of `nvidia-smi topo -m`. A client that is given a GPU uses its
    nearest NICs when GD2FS_DEVICE_NICS says how many.
    """
    from gd2fs.topology import read_topology

    found = read_topology(root)
    if as_json:
        print_json(_as_dict(found, count))
    elif found.gpus or found.nics:
        _print(found, count)
    else:
        print_warning("no GPU and no NIC is seen on this machine's PCI bus")


def _as_dict(found: Topology, count: int) -> dict[str, Any]:
    return {
        "numa_nodes": found.numa_nodes,
        "gpus": [_gpu_as_dict(found, gpu, count) for gpu in found.gpus],
        "nics": [_nic_as_dict(nic) for nic in found.nics],
        "distances": {
            one.name: {other.name: between.word for other, between in row}
            for one, row in _matrix(found)
        },
    }


def _gpu_as_dict(found: Topology, gpu: Gpu, count: int) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "address": gpu.place.address,
        "numa_node": gpu.place.numa_node,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "nearest": [nic.name for nic in found.nearest_nics(gpu, count)],
    }


def _nic_as_dict(nic: Nic) -> dict[str, Any]:
    return {
        "name": nic.name,
        "address": nic.place.address,
        "numa_node": nic.place.numa_node,
        "interfaces": [each.name for each in nic.interfaces],
        "rdma": list(dict.fromkeys(port.device for port in nic.ports)),
        "is_up": nic.is_up,
        "speed_mbit": nic.speed_mbit,
        "physical": nic.physical,
    }


def _devices(found: Topology) -> list[Gpu | Nic]:
    return [*found.gpus, *found.nics]


def _matrix(found: Topology) -> Iterator[Row]:
    from gd2fs.topology import distance

    devices = _devices(found)
    for one in devices:
        yield one, [(other, distance(one.place, other.place)) for other in devices]


def _print(found: Topology, count: int) -> None:
    rows = list(_matrix(found))
    with whole_lines() as console:
        console.width = WIDTH_MAX  # a matrix whose columns are cut off tells nothing
        console.print(_distance_table(rows))
        console.print()
        console.print(_device_table(found, count))
        console.print()
        for each in sorted({between for _, row in rows for _, between in row}):
            console.print(Text(f"{each.word:<6}{each.meaning}", style="dim"))


def _distance_table(rows: Rows) -> Table:
    table = _table("", *(one.name for one, _ in rows))
    for one, row in rows:
        words = (Text(each.word, style=STYLES.get(each.word, "")) for _, each in row)
        table.add_row(Text(one.name, style="bold"), *words)
    return table


def _device_table(found: Topology, count: int) -> Table:
    table = _table("", "PCI address", "NUMA", "nearest", "what it is")
    for one in _devices(found):
        node = str(one.place.numa_node) if one.place.numa_node >= 0 else "?"
        table.add_row(
            Text(one.name, style="bold"),
            one.place.address,
            node,
            _nearest(found, one, count),
            Text(printable(_what_is(one))),
        )
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _what_is(device: Gpu | Nic) -> str:
    from gd2fs.topology import Nic

    if not isinstance(device, Nic):
        return ", ".join(filter(None, (device.model or "GPU", device.uuid)))
    is_told = device.is_up and device.speed_mbit
    speed = f", {device.speed_mbit / 1000:g} Gbit/s" if is_told else ""
    virtual = f", a virtual function of {device.physical}" if device.physical else ""
    state = "up" if device.is_up else "down"
    return f"{' '.join(device.names) or 'NIC'}: {state}{speed}{virtual}"


def _nearest(found: Topology, device: Gpu | Nic, count: int) -> str:
    from gd2fs.topology import Nic

    if isinstance(device, Nic):
        return ""
    return ", ".join(nic.name for nic in found.nearest_nics(device, count)) or "none is up"
