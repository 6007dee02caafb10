"""Identity and fingerprint: whoever differs in what gives bytes their meaning shares nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gd2fs import InvalidRequest
from gd2fs.engines.fingerprint import SAMPLE_BYTES, SAMPLES, sample_offsets, weights_fingerprint
from gd2fs.engines.identity import KvIdentity, page_key

IDENTITY = KvIdentity(
    engine="sglang",
    model="org/Some Model-8B",
    weights="abc",
    dtype="bfloat16",
    layout="page_first",
    layout_version=1,
    page_tokens=64,
    geometry={"layers": 32, "kv_heads": 8},
    ranks={"tp": 2, "pp": 1},
)

CHANGES = [
    {"engine": "vllm"},
    {"model": "org2/Some Model-8B"},
    {"weights": "abd"},
    {"dtype": "float8_e4m3fn"},
    {"layout": "layer_first"},
    {"layout_version": 2},
    {"page_tokens": 32},
    {"geometry": {"layers": 32, "kv_heads": 4}},
    {"ranks": {"tp": 4, "pp": 1}},
    {"tag": "blue"},
    {"extra": {"rope": "yarn"}},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_difference_in_any_field_is_another_namespace(change):
    assert replace(IDENTITY, **change).namespace() != IDENTITY.namespace()


def test_the_order_of_sizes_means_nothing():
    turned = replace(IDENTITY, geometry={"kv_heads": 8, "layers": 32})

    assert turned.namespace() == IDENTITY.namespace()


def test_a_namespace_names_engine_and_model():
    assert IDENTITY.namespace().startswith("sglang-Some-Model-8B-")


@pytest.mark.parametrize("model", ["/", "...", "模型", "m" * 500, "a\0b"])
def test_any_model_name_gives_a_valid_namespace(model, one_node_client):
    namespace = replace(IDENTITY, model=model).namespace()

    assert one_node_client.pages(namespace).exists([b"key"]).present == [False]


@pytest.mark.parametrize("name", ["engine", "model", "weights", "dtype", "layout"])
def test_an_identity_with_a_gap_is_refused(name):
    with pytest.raises(InvalidRequest, match=name):
        replace(IDENTITY, **{name: ""})


def test_parts_of_a_key_cannot_run_into_each_other():
    keys = {
        page_key("ab", pool="kv", rank="0"),
        page_key("b", pool="kv", rank="0a"),
        page_key("0/ab", pool="kv", rank=""),
        page_key("ab", pool="kv0", rank=""),
    }

    assert len(keys) == 4


@pytest.mark.parametrize("rank", ["0/1", "r" * 65])
def test_a_part_that_could_be_two_is_refused(rank):
    with pytest.raises(InvalidRequest):
        page_key("ab", rank=rank)


@pytest.mark.parametrize("text", [b"", b"h" * 257])
def test_a_hash_of_no_possible_length_is_refused(text):
    with pytest.raises(InvalidRequest):
        page_key(text)


def checkpoint(folder: Path, weights: bytes = bytes(3 << 20)) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"layers": 2}')
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_copies_of_a_checkpoint_have_one_fingerprint(tmp_path):
    first, second = checkpoint(tmp_path / "a"), checkpoint(tmp_path / "b")

    assert weights_fingerprint(str(first)) == weights_fingerprint(str(second))


@pytest.mark.parametrize("at", [0, SAMPLE_BYTES - 1, (3 << 20) - 1], ids=str)
def test_other_weights_of_the_same_size_have_another_fingerprint(tmp_path, at):
    weights = bytearray(3 << 20)
    weights[at] = 1

    first = weights_fingerprint(str(checkpoint(tmp_path / "a")))
    second = weights_fingerprint(str(checkpoint(tmp_path / "b", bytes(weights))))

    assert first != second


def test_another_configuration_is_another_fingerprint(tmp_path):
    first, second = checkpoint(tmp_path / "a"), checkpoint(tmp_path / "b")
    (second / "config.json").write_text('{"layers": 3}')

    assert weights_fingerprint(str(first)) != weights_fingerprint(str(second))


def test_dummy_weights_follow_from_their_seed(tmp_path):
    folder = checkpoint(tmp_path / "a")
    prints = {weights_fingerprint(str(folder), load_format="dummy", seed=at) for at in (1, 1, 2)}

    assert len(prints) == 2


def test_a_name_stands_for_itself_and_its_revision():
    prints = {
        weights_fingerprint("org/model"),
        weights_fingerprint("org/model", revision="1"),
        weights_fingerprint("org/model2"),
    }

    assert len(prints) == 3


def test_a_folder_without_weights_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(InvalidRequest, match="no file of weights"):
        weights_fingerprint(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, SAMPLE_BYTES, SAMPLES * SAMPLE_BYTES])
def test_a_small_file_is_read_whole(size):
    assert len(sample_offsets(size)) == -(-size // SAMPLE_BYTES)


def test_samples_begin_at_the_start_and_reach_the_end():
    size = (1 << 30) + 1
    offsets = sample_offsets(size)

    assert (offsets[0], offsets[-1] + SAMPLE_BYTES, len(offsets)) == (0, size, SAMPLES)
