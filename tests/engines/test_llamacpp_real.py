"""The real engine over a real node: turns move between instances, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gd2fs.bench.children import Child, Children
from gd2fs.bench.model import find_model
from gd2fs.engines.llamacpp.bounce import PREFIX
from gd2fs.errors import InvalidRequest

httpx = pytest.importorskip("httpx", reason="the extra `demo` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `demo` is not installed")
try:
    MODEL = find_model(None)
except InvalidRequest as error:
    pytest.skip(f"{error}; {error.hint}", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STORY = "Tell me about " + " and ".join(["a lantern, a bridge"] * 20) + "."
TIMEOUT_S = 200


def start_engine(children: Children, name: str, *options: str) -> Child:
    command = [sys.executable, "-m", "gd2fs.engines.llamacpp", "--model", MODEL, "--port", "0"]
    return children.start(name, [*command, "--ctx", "1024", *options])


def address_of(child: Child) -> str:
    child.wait_ready()
    return child.facts["address"]


@pytest.fixture(scope="module")
def engines():
    """Addresses of two instances over one node."""
    serve = [sys.executable, "-m", "gd2fs", "serve", "--cluster", "test", "--memory", "256MiB"]
    with (
        tempfile.TemporaryDirectory() as folder,
        Children(Path(folder)) as children,
    ):
        node = children.start("node", [*serve, "--listen", "tcp://127.0.0.1:0"])
        node.wait_ready()
        cp = node.facts["listen"].removeprefix("tcp://")
        started = [
            start_engine(children, f"engine-{n}", "--cp", cp, "--cluster", "test") for n in (0, 1)
        ]
        yield [address_of(child) for child in started]


def chat(address, messages, **more):
    body = {"messages": messages, "temperature": 0, "max_tokens": 12, **more}
    answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def complete(address, prompt, session, **more):
    body = {"prompt": prompt, "n_predict": 8, "temperature": 0, "ignore_eos": True}
    body |= {"return_tokens": True, "session": session, **more}
    answer = httpx.post(f"{address}/completion", json=body, timeout=TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_plain_chat_client_finds_its_history_on_another_instance(engines):
    first = [{"role": "user", "content": STORY}]
    answer = chat(engines[0], first)
    second = [*first, answer["choices"][0]["message"], {"role": "user", "content": "And then?"}]

    timings = chat(engines[1], second)["timings"]

    assert timings["cache_n"] >= answer["usage"]["prompt_tokens"]
    assert timings["prompt_n"] < 40


def test_a_session_goes_on_elsewhere_and_computes_only_what_is_new(engines):
    prompt = list(range(1000, 1150))
    first = complete(engines[0], prompt, "goes-on")
    again = [*prompt, *first["tokens"], 2000, 2001]

    timings = complete(engines[1], again, "goes-on")["timings"]

    assert (timings["cache_n"], timings["prompt_n"]) == (len(prompt) + 8 - 1, 3)


def test_a_restored_turn_and_a_computed_one_have_the_same_tokens(engines):
    prompt = list(range(3000, 3120))
    first = complete(engines[0], prompt, "restored")
    again = [*prompt, *first["tokens"], *range(4000, 4070)]

    restored = complete(engines[1], again, "restored")
    computed = complete(engines[0], again, "computed")

    assert computed["timings"]["cache_n"] < len(prompt)
    assert restored["tokens"] == computed["tokens"]


def test_a_session_of_another_conversation_changes_no_token(engines):
    one, other = list(range(5000, 5100)), list(range(6000, 6100))
    right = complete(engines[0], other, "alone")["tokens"]
    complete(engines[0], one, "mixed")

    assert complete(engines[1], other, "mixed")["tokens"] == right


def test_an_instance_without_its_store_answers_and_counts(tmp_path):
    away = ("--cp", "127.0.0.1:9", "--cluster", "test", "--store-timeout-s", "0.5")
    with Children(tmp_path) as children:
        address = address_of(start_engine(children, "engine", *away))

        assert len(complete(address, [100, 200, 300], "s")["tokens"]) == 8
        counts = httpx.get(f"{address}/stats").json()

    assert (counts["restore_failures"], counts["save_failures"]) == (1, 1)


def bounce_of(child: Child) -> Path:
    """The directory in shared memory whose lock the process holds."""
    opened = (Path(os.readlink(fd)) for fd in Path(f"/proc/{child.pid}/fd").iterdir())
    return next(path.parent for path in opened if path.parent.name.startswith(PREFIX))


def test_an_instance_that_is_told_to_end_leaves_nothing(tmp_path):
    with Children(tmp_path) as children:
        child = start_engine(children, "engine", "--no-store")
        address_of(child)
        bounce = bounce_of(child)
        child.terminate()
        child.wait_end()

    assert child.process.returncode == 0
    assert not bounce.exists()


def test_a_model_that_cannot_be_loaded_is_told_in_two_lines(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    command = [sys.executable, "-m", "gd2fs.engines.llamacpp", "--no-store", "--port", "0"]

    done = subprocess.run(
        [*command, "--model", str(tmp_path / "bad.gguf")], capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "error: llama.cpp cannot load" in done.stderr
    assert "hint:" in done.stderr


def test_sigkill_of_an_instance_leaves_a_directory_that_the_next_one_removes(tmp_path):
    with Children(tmp_path) as children:
        child = start_engine(children, "engine", "--no-store")
        address_of(child)
        bounce = bounce_of(child)
        child.kill()
        address_of(start_engine(children, "next", "--no-store"))

    assert not bounce.exists()
