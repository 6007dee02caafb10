"""libgd2fs: a C program, built as its users build theirs, against real nodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gd2fs import __version__
from gd2fs.cli.config import library_prefix
from gd2fs.testing.certificates import Certificates
from gd2fs.testing.cluster import Cluster

SOURCES = Path(__file__).parent / "capi"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"]
GD2FS = [sys.executable, "-m", "gd2fs"]
RUN_S = 90
ON_ITS_OWN = {"large_write_comes_back", "stopped_node_costs_one_deadline"}
PROPERTIES = re.findall(r"^void (\w+)\(void\);", (SOURCES / "properties.h").read_text(), re.M)


def words(*command: str, **environment: str) -> list[str]:
    """What a command prints, as words."""
    return subprocess.run(
        command, check=True, text=True, capture_output=True, env=os.environ | environment
    ).stdout.split()


def from_config() -> list[str]:
    return words(*GD2FS, "config", "--cflags", "--libs")


def from_pkg_config() -> list[str]:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed: `apt-get install pkg-config`")
    path = words(*GD2FS, "config", "--pkg-config-path")[0]
    flags = words("pkg-config", "--cflags", "--libs", "libgd2fs", PKG_CONFIG_PATH=path)
    return [*flags, f"-Wl,-rpath,{library_prefix() / 'lib'}"]


def build(built: Path, flags: list[str]) -> Path:
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    subprocess.run(["cc", *STRICT, *sources, "-o", built, *flags], check=True)
    return built


@pytest.fixture(scope="session")
def program(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("capi") / "properties", from_config())


def check(program: Path, name: str, cp: str, cluster: str, **environment: str) -> None:
    ended = subprocess.run(
        [program, name, cp, cluster],
        timeout=RUN_S,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize("name", [name for name in PROPERTIES if name not in ON_ITS_OWN])
def test_property_holds(program, three_nodes, client, name, transport):
    client.clear("capi")

    where = (f"gd2fs://{three_nodes.cp}", three_nodes.cluster)
    check(program, name, *where, GD2FS_TRANSPORT=transport)


def test_pkg_config_builds_it_too(three_nodes, client, tmp_path):
    client.clear("capi")
    built = build(tmp_path / "properties", from_pkg_config())

    check(built, "pieces_make_one_range", f"gd2fs://{three_nodes.cp}", three_nodes.cluster)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """A node with TLS and a token, and what the environment of its clients says."""
    folder = tmp_path_factory.mktemp("guarded")
    certificates = Certificates(folder)
    certificates.add("node")
    token = folder / "token"
    token.write_text(f"capi.{'s' * 43}\n")
    token.chmod(0o600)
    files = [certificates.path(f"node.{end}") for end in ("crt", "key")]
    options = ("--tls-cert", files[0], "--tls-key", files[1], "--token-file", str(token))
    with Cluster(1, "64MiB", str(folder), "plain", options=options) as cluster:
        yield (
            cluster,
            {
                "GD2FS_TRANSPORT": "tcp",
                "GD2FS_TLS_CA": certificates.path("ca.crt"),
                "GD2FS_TOKEN_FILE": str(token),
            },
        )


def test_a_token_and_tls_come_from_the_environment(program, guarded):
    cluster, environment = guarded

    check(program, "pieces_make_one_range", cluster.cp, cluster.name, **environment)


@pytest.mark.parametrize("missing", ["GD2FS_TLS_CA", "GD2FS_TOKEN_FILE"])
def test_without_them_a_guarded_node_lets_no_program_in(program, guarded, missing):
    cluster, environment = guarded
    rest = {name: text for name, text in environment.items() if name != missing}

    with pytest.raises(AssertionError, match=r"does not hold: session\.ctx"):
        check(program, "pieces_make_one_range", cluster.cp, cluster.name, **rest)


def test_a_name_of_certificates_without_their_authority_is_no_plain_connection(program, guarded):
    cluster, environment = guarded
    rest = environment | {"GD2FS_TLS_CA": "", "GD2FS_TLS_NAME": "kv.example"}

    with pytest.raises(AssertionError, match="GD2FS_TLS_CA is missing"):
        check(program, "pieces_make_one_range", cluster.cp, cluster.name, **rest)


@pytest.mark.slow
def test_256_mib_are_one_write(program, tmp_path):
    with Cluster(nodes=1, memory="320MiB", directory=str(tmp_path)) as cluster:
        check(program, "large_write_comes_back", cluster.cp, cluster.name, LARGE_MIB=large_mib())


def large_mib() -> str:
    """256, or 64 where there is no memory for the node, the source and what comes back."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return "256" if pages > 3 << 30 else "64"


def test_a_stopped_node_costs_one_deadline(program, tmp_path):
    with Cluster(nodes=1, memory="64MiB", directory=str(tmp_path)) as cluster:
        process = cluster.members[0].process
        assert process
        check(
            program,
            "stopped_node_costs_one_deadline",
            cluster.cp,
            cluster.name,
            NODE_PID=str(process.pid),
        )


def test_all_properties_are_run():
    assert len(PROPERTIES) == len(set(PROPERTIES)) and set(PROPERTIES) >= ON_ITS_OWN
    assert all(f"PROPERTY({name})" in (SOURCES / "main.c").read_text() for name in PROPERTIES)


def test_the_header_is_cpp_too(tmp_path):
    built = tmp_path / "header"
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["g++", *strict, SOURCES / "header.cc", "-o", built, *from_config()], check=True)

    ended = subprocess.run([built], capture_output=True, text=True, timeout=RUN_S)

    assert ended.returncode == 0
    assert "both `tcp://` and `rdma://` are in the list" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_example_of_the_reference_runs(one_node, tmp_path):
    page = (SOURCES.parents[1] / "docs" / "reference" / "c.md").read_text()
    example = re.search(r"```c\n(.*?)```", page, re.DOTALL)
    assert example
    text = example[1].replace("127.0.0.1:7527", one_node.cp)
    text = text.replace('"demo"', f'"{one_node.cluster}"')
    source, built = tmp_path / "main.c", tmp_path / "main"
    source.write_text(text)
    subprocess.run(["cc", *STRICT, source, "-o", built, *from_config()], check=True)

    assert words(str(built)) == ["the", "KV", "cache", "of", "a", "conversation"]


def test_only_the_published_names_leave_the_library():
    library = library_prefix() / "lib" / "libgd2fs.so"
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    names = {line.split()[-1] for line in symbols.splitlines()}

    header = (library_prefix() / "include" / "xfer" / "gd2fs.h").read_text()
    assert names == set(re.findall(r"(xfer_gd2fs_\w+)\(", header))


def test_the_header_has_the_version_of_the_package():
    header = (library_prefix() / "include" / "xfer" / "gd2fs.h").read_text()

    assert f'#define XFER_GD2FS_VERSION "{__version__}"' in header


def test_defaults_come_from_the_environment(program, three_nodes, client):
    client.clear("capi")
    where = (f"gd2fs://{three_nodes.cp}", three_nodes.cluster)

    check(program, "missing_file_is_enoent", *where, GD2FS_IOTHREADS="4", GD2FS_STREAMS="4")
    with pytest.raises(AssertionError, match=r"libgd2fs: error: .*telepathy"):
        check(program, "missing_file_is_enoent", *where, GD2FS_TRANSPORT="telepathy")
    with pytest.raises(AssertionError, match="GD2FS_STREAMS is `many`, not a number"):
        check(program, "missing_file_is_enoent", *where, GD2FS_STREAMS="many")


def test_config_prints_what_it_is_asked_for():
    root = library_prefix()

    assert words(*GD2FS, "config", "--prefix", "--pkg-config-path") == [
        str(root), str(root / "lib" / "pkgconfig"),
    ]  # fmt: skip
    assert (root / "lib" / "pkgconfig" / "libgd2fs.pc").exists()
