"""Reading a model's header: what is right is read, anything else is refused."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gd2fs.engines.llamacpp.gguf import read_shape
from gd2fs.errors import InvalidRequest

U32, TEXT, ARRAY, I32 = 4, 8, 9, 5


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def number(key, value):
    return entry(key, U32, struct.pack("<I", value))


def header(*entries):
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


def numbers(key, values):
    head = struct.pack("<IQ", I32, len(values))
    return entry(key, ARRAY, head + struct.pack(f"<{len(values)}i", *values))


BASE = (
    entry("general.architecture", TEXT, text("llama")),
    entry("general.name", TEXT, text("tiny")),
    numbers("tokenizer.ids", list(range(5000))),
    number("llama.block_count", 3),
    number("llama.embedding_length", 64),
    number("llama.context_length", 512),
    number("llama.attention.head_count", 4),
)
WHOLE = header(*BASE, number("llama.attention.head_count_kv", 2))


def shape_of(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return read_shape(str(path))


def test_the_bytes_of_a_token_follow_from_layers_heads_and_widths(tmp_path):
    layers, heads_kv, width, keys_and_values, f16 = 3, 2, 16, 2, 2

    assert shape_of(tmp_path, WHOLE).kv_bytes_per_token == (
        layers * heads_kv * width * keys_and_values * f16
    )


def test_layers_may_differ_in_their_heads(tmp_path):
    content = header(*BASE, numbers("llama.attention.head_count_kv", [1, 2, 4]))

    assert shape_of(tmp_path, content).kv_bytes_per_token == (1 + 2 + 4) * 16 * 2 * 2


def test_the_name_and_the_context_are_read(tmp_path):
    shape = shape_of(tmp_path, WHOLE)

    assert (shape.name, shape.ctx_train) == ("tiny", 512)


def test_a_model_that_says_too_little_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="head_count"):
        shape_of(tmp_path, header(*BASE[:-1]))


@pytest.mark.parametrize("end", [0, 3, 20, 40, len(WHOLE) - 1])
def test_a_header_cut_short_is_refused(tmp_path, end):
    with pytest.raises(InvalidRequest):
        shape_of(tmp_path, WHOLE[:end])


def test_a_count_that_nothing_can_have_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(InvalidRequest, match="a count"):
        shape_of(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60))


@given(at=st.integers(4, len(WHOLE) - 1), value=st.integers(0, 255))
def test_any_damage_is_refused_or_read_but_never_breaks_the_reader(tmp_path_factory, at, value):
    damaged = bytearray(WHOLE)
    damaged[at] = value
    folder = tmp_path_factory.getbasetemp()
    with contextlib.suppress(InvalidRequest):
        assert shape_of(folder, bytes(damaged)).kv_bytes_per_token > 0
