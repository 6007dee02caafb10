"""What the bytes of pages depend on, as SGLang's arguments say it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkpoint import make_checkpoint
from sglang.srt.arg_groups.overrides import declare_resolution
from sglang.srt.server_args import ServerArgs

from gd2fs import InvalidRequest
from gd2fs.engines.sglang import recipe


def arguments(**given: Any) -> recipe.Arguments:
    return recipe.Arguments(ServerArgs(**given))


def test_two_checkpoints_of_one_name_differ(tmp_path):
    folder = str(tmp_path / "model")
    prints = []
    for seed in (1, 2, 1):
        make_checkpoint(Path(folder), seed=seed)
        prints.append(recipe.weights_of(arguments(model_path=folder)))

    assert (prints[0] == prints[2], prints[0] == prints[1]) == (True, False)


def test_a_seed_that_sglang_drew_itself_counts(tmp_path):
    folder = str(make_checkpoint(tmp_path / "model"))
    prints = []
    for seed in (5, 6):
        typed = ServerArgs(model_path=folder, load_format="dummy")
        declare_resolution(typed, "a test", random_seed=seed)
        prints.append(recipe.weights_of(recipe.Arguments(typed)))

    assert prints[0] != prints[1]


def test_adapters_count_by_their_content(tmp_path):
    prints = []
    for content in (b"one", b"another"):
        (tmp_path / "adapter_model.safetensors").write_bytes(content)
        found = SimpleNamespace(lora_paths=[SimpleNamespace(lora_name="a", lora_path=tmp_path)])
        prints.append(recipe.adapters_of(found))

    assert prints[0] != prints[1]
    assert recipe.adapters_of(arguments(model_path="model")) == ""


def test_a_draft_model_has_a_fingerprint_of_its_own(tmp_path):
    folder = str(make_checkpoint(tmp_path / "draft"))

    assert recipe.draft_of(arguments(model_path="model", speculative_draft_model_path=folder))
    assert recipe.draft_of(arguments(model_path="model")) == ""


def test_without_arguments_the_weights_have_to_be_given():
    with pytest.raises(InvalidRequest, match="which weights"):
        recipe.weights_of(None)


def test_bytes_of_one_size_and_another_meaning_differ():
    import torch

    pool = SimpleNamespace(dtype=torch.uint8)
    kinds = {
        recipe.dtype_of(pool, arguments(model_path="model", kv_cache_dtype=each))
        for each in ("fp8_e4m3", "fp8_e5m2")
    }

    assert len(kinds) == 2
