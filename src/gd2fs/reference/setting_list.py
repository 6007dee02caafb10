"""Settings: everything that can be set: options of a node, rules of namespaces, the environment."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

import gd2fs
from gd2fs.cli.app import make_app
from gd2fs.cli.serve import options_of, serve
from gd2fs.reference import markdown
from gd2fs.reference.command_line import meanings_of
from gd2fs.rules import KEYS, PLAIN

ROOT = Path(gd2fs.__file__).resolve().parent
NAME = re.compile(r"GD2FS_[A-Z][A-Z_]*[A-Z]")
RUN_TIME = ("move_rate", "nvme_rate")
HEAD = """<!-- Made by `make reference` of the options of `gd2fs serve` and of src/gd2fs. -->

# Settings

Of a node: on the command line of [`gd2fs serve`](cli.md#serve), in its [file](configuration.md),
and some in the environment. The command line wins over the file, the file over the environment."""
CLIENT = """Of clients, of the command line and of nodes, as far as they have a use for it. What a
call is given wins."""

ENVIRONMENT: Mapping[str, str] = {
    "GD2FS_CPADDR": "nodes to ask first, `gd2fs://ADDR:PORT,…`",
    "GD2FS_CLUSTER": "the cluster's name",
    "GD2FS_DPADDR": "the client's own addresses, `tcp://ADDR,…`, or `rdma://ADDR,…`: streams leave "
    "from each in turn",
    "GD2FS_DEVICE": "a GPU that the client's bytes are for: an index, a PCI address or a UUID",
    "GD2FS_DEVICE_NICS": "use so many NICs that are nearest to it, where no address is named; 0",
    "GD2FS_STREAMS": "connections to each node, 1 to 64; 2",
    "GD2FS_IOTHREADS": "threads that move bytes, 1 to 64; 2",
    "GD2FS_MEMTHREADS": "taken for compatibility, 1 to 64; 1",
    "GD2FS_TIMEOUT_S": "deadline of a call, in seconds; 5",
    "GD2FS_TRANSPORT": "`auto`, `shm`, `rdma`, `unix` or `tcp`; auto",
    "GD2FS_UCX": "path of a libucp, for RDMA; else one of a wheel, else the system's",
    "GD2FS_UCX_TLS": "which of UCX's transports, as `UCX_TLS`; all but those within a host",
    "GD2FS_CONGESTION": "how sockets share the network, by the kernel's name; cubic, else reno",
    "GD2FS_SOCKET_BUFFER": "of each direction of a socket, 64KiB to 256MiB; 1MiB",
    "GD2FS_BOUNCE_SIZE": "pinned memory that bytes of GPUs pass through, 1MiB to 64GiB; 128MiB",
    "GD2FS_LOAD_POLICY": "`direct` to a GPU where cards reach it, or `bounce`; direct",
    "GD2FS_SAVE_POLICY": "the same, from a GPU",
    "GD2FS_LOAD_CHECKS": "of loads straight to a GPU one in so many is verified, 0: none; 64",
    "GD2FS_ETCD": "endpoints of etcd, `http://HOST:2379,…`",
    "GD2FS_ETCD_PASSWORD": "of the user that `--etcd-user` names",
    "GD2FS_TOKEN": "the token itself, `NAME.SECRET`; better a file",
    "GD2FS_TOKEN_FILE": "a file that has the token in its first line",
    "GD2FS_TLS_CA": "who signs nodes' certificates, a PEM file: turns TLS on for clients",
    "GD2FS_TLS_CERT": "the own certificate, a PEM file",
    "GD2FS_TLS_KEY": "the key of it, a PEM file",
    "GD2FS_TLS_NAME": "one more name that nodes' certificates may have",
    "GD2FS_KUBERNETES": "namespace of Kubernetes that keeps the membership",
}


def page() -> str:
    """The whole page."""
    return markdown.page(
        [
            HEAD,
            "## Options of a node",
            markdown.table(("in the file", "option", "default", "meaning"), _options()),
            f"At run time, with `gd2fs config set`: {', '.join(f'`{each}`' for each in RUN_TIME)}, "
            "and all rules.",
            "## Rules of namespaces",
            "Under `[default]` and `[namespace.NAME]`; what each means is in "
            "[the configuration file](configuration.md#rules).",
            markdown.table(("key", "default"), _rules()),
            "## Environment",
            CLIENT,
            markdown.table(("variable", "meaning"), _variables()),
        ]
    )


def variables_read() -> set[str]:
    """All that the source names."""
    sources = (path for path in ROOT.rglob("*.py") if "reference" not in path.parts)
    texts = (path.read_text(encoding="utf-8") for path in sources)
    return {name for text in texts for name in NAME.findall(text)}


def _options() -> Iterator[tuple[str, str, str, str]]:
    commands = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]
    parameters = {each.name: each for each in commands["serve"].params}
    signature = inspect.signature(serve).parameters
    longer = meanings_of("serve")
    for name in options_of(serve):
        default = signature[name].default
        shown = "" if default is None or default is False else f"{default}"
        short = (parameters[name].help or "").replace("\\[", "[")
        text = markdown.sentence(longer.get(parameters[name].opts[0], short))
        yield f"`{name}`", f"`{parameters[name].opts[0]}`", markdown.code(shown), text


def _rules() -> Iterator[tuple[str, str]]:
    for key, rule in KEYS.items():
        value = getattr(PLAIN, rule.field)
        shown = "as the node has it" if value is None else f"`{rule.show(value)}`"
        yield f"`{key}`", shown


def _variables() -> Iterator[tuple[str, str]]:
    for name in sorted(variables_read()):
        yield f"`{name}`", ENVIRONMENT[name]
