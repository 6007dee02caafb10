"""Checkpoint: a small Llama of random weights, and a tokenizer for it, made where they are needed.

The weights are large enough that what such a model says depends on every token before. With those
that `--load-format dummy` makes, it says the same whatever is in its cache.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 512
SPECIAL = ("<pad>", "<s>", "</s>")  # in the order of their numbers
CONTEXT_TOKENS = 32_768
DEVIATION = 0.1  # of the weights
NORMS = ("input_layernorm", "post_attention_layernorm")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
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
GENERATION = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": SPECIAL[0],
    "bos_token": SPECIAL[1],
    "eos_token": SPECIAL[2],
    "model_max_length": CONTEXT_TOKENS,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
}


def make_checkpoint(folder: Path, *, seed: int = 1) -> Path:
    """Write the files of a checkpoint; the same ones for the same ``seed``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", CONFIG),
        ("generation_config.json", GENERATION),
        ("tokenizer_config.json", TOKENIZER),
    ):
        (folder / name).write_text(json.dumps(content, indent=1))
    trained_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(random_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_weights(seed: int) -> dict[str, numpy.ndarray]:
    """Tensors of a Llama, by the names that checkpoints have."""
    draw = numpy.random.default_rng(seed)
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    shapes = {"model.embed_tokens": (VOCABULARY, hidden), "lm_head": (VOCABULARY, hidden)}
    for layer in range(CONFIG["num_hidden_layers"]):
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
