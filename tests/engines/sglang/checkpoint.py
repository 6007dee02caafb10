"""Checkpoint: a small Llama of random weights, and a tokenizer for it, made where they are needed.

As a program, in an environment that has an engine: `python checkpoint.py FOLDER SIZE`.

The weights are large enough that what such a model says depends on every token before. With those
that `--load-format dummy` makes, it says the same whatever is in its cache.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 512
SPECIAL = ("<pad>", "<s>", "</s>")  # in the order of their numbers
CONTEXT_TOKENS = 32_768
DEVIATION = 0.1  # of the weights
NORMS = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a Llama is; of its heads, ``kv_heads`` are kept in the cache."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int

    def config(self) -> dict[str, object]:
        """What `config.json` says."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": CONTEXT_TOKENS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        }


SMALL = Size(layers=4, hidden=256, inner=512, heads=8, kv_heads=4, head=32)
# Dear to compute on a CPU, as a real model is on a GPU: what is found in a cache saves time.
WIDE = Size(layers=6, hidden=1024, inner=6144, heads=4, kv_heads=2, head=256)
SIZES = {"small": SMALL, "wide": WIDE}
GENERATION = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": SPECIAL[0],
    "bos_token": SPECIAL[1],
    "eos_token": SPECIAL[2],
    "model_max_length": CONTEXT_TOKENS,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
}


def make_checkpoint(folder: Path, *, size: Size = SMALL, seed: int = 1) -> Path:
    """Write the files of a checkpoint; the same ones for the same ``size`` and ``seed``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", size.config()),
        ("generation_config.json", GENERATION),
        ("tokenizer_config.json", TOKENIZER),
    ):
        (folder / name).write_text(json.dumps(content, indent=1))
    trained_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(random_weights(size, seed), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_weights(size: Size, seed: int) -> dict[str, numpy.ndarray]:
    """Tensors of a Llama, by the names that checkpoints have."""
    draw = numpy.random.default_rng(seed)
    hidden, inner = size.hidden, size.inner
    kv = size.kv_heads * size.head
    shapes = {"model.embed_tokens": (VOCABULARY, hidden), "lm_head": (VOCABULARY, hidden)}
    for layer in range(size.layers):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.self_attn.{name}_proj": (hidden, hidden) for name in "qo"}
        shapes |= {f"{at}.self_attn.{name}_proj": (kv, hidden) for name in "kv"}
        shapes |= {f"{at}.mlp.{name}_proj": (inner, hidden) for name in ("gate", "up")}
        shapes |= {f"{at}.mlp.down_proj": (hidden, inner)}
        shapes |= {f"{at}.{name}": (hidden,) for name in NORMS}
    shapes["model.norm"] = (hidden,)
    return {
        f"{name}.weight": numpy.ones(shape, numpy.float32)
        if len(shape) == 1
        else draw.normal(0, DEVIATION, shape).astype(numpy.float32)
        for name, shape in shapes.items()
    }


def trained_tokenizer() -> Tokenizer:
    """Pairs of bytes, learnt from a few words."""
    draw = random.Random(0)
    words = ["the", "a", "page", "of", "cache", "is", "kept", "for", "whoever", "asks", "again"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((" ".join(draw.choices(words, k=50)) for _ in range(50)), trainer)
    return tokenizer


if __name__ == "__main__":
    make_checkpoint(Path(sys.argv[1]), size=SIZES[sys.argv[2]])
