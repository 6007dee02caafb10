"""Engine: what one instance can do: how long prompts take, and steps of decoding.

Rates are told, fitted to a measurement (``calibration``), or follow from a GPU and a model:
computing a prompt is bound by arithmetic, a step of decoding by the memory that it has to read.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from gd2fs.errors import InvalidRequest
from gd2fs.plan.geometry import Geometry
from gd2fs.plan.models import KNOWN
from gd2fs.sim.trace import plain

COUNT_MAX = (1 << 31) - 1  # of anything that an engine has
SLOTS_MAX = 1 << 16  # all of them are looked at for each request
TIME_MOST_S = 86_400.0
MOST = {
    "token_s": TIME_MOST_S,
    "attention_s": TIME_MOST_S,
    "prompt_s": TIME_MOST_S,
    "step_s": TIME_MOST_S,
    "step_request_s": TIME_MOST_S,
    "step_token_s": TIME_MOST_S,
    "token_bytes": 1e12,
    "chunk_tokens": COUNT_MAX,
    "requests_max": COUNT_MAX,
    "tokens_max": COUNT_MAX,
    "slots": SLOTS_MAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Of one instance. Times are seconds.

    Attributes:
        token_s: To compute a token of a prompt.
        attention_s: More, for each token before it.
        prompt_s: For each prompt, whatever its length.
        step_s: Of a decoding step, whatever its batch.
        step_request_s: More, for each request in it.
        step_token_s: More, for each token that these have so far.
        chunk_tokens: Of a prompt, computed along with a decoding step; 0: prompts are computed
            alone, ahead of decoding.
        requests_max: Decoded at the same time; 0: engines take no time at all.
        tokens_max: Of the prompts and answers of these; 0: any number.
        slots: That have whole prompts, as those of llama.cpp's server: each keeps what it computed
            last, and a request waits until one is idle; 0: the cache is made of pages.
        token_bytes: Of KV cache; 0: nothing is known of bytes, and moving them takes no time.
    """

    token_s: float = 0.0
    attention_s: float = 0.0
    prompt_s: float = 0.0
    step_s: float = 0.0
    step_request_s: float = 0.0
    step_token_s: float = 0.0
    chunk_tokens: int = 0
    requests_max: int = 0
    tokens_max: int = 0
    slots: int = 0
    token_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise InvalidRequest(f"`{name}` of an engine is {value:g}", hint="give 0 or more")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise InvalidRequest(
                    f"`{name}` of an engine is {getattr(self, name)}", hint=f"{plain(most)} at most"
                )
        if self.requests_max and not (self.token_s or self.prompt_s):
            raise InvalidRequest(
                "an engine computes prompts in no time", hint="give `token_s` or `prompt_s`"
            )
        if self.requests_max and not (self.step_s or self.step_request_s):
            raise InvalidRequest(
                "an engine decodes in no time", hint="give `step_s` or `step_request_s`"
            )

    @property
    def is_instant(self) -> bool:
        """Nothing takes time: only what is found counts."""
        return self.requests_max == 0

    def for_core(self) -> dict[str, Any]:
        """As the core takes them."""
        rates = asdict(self)
        del rates["token_bytes"], rates["slots"]
        return rates


INSTANT = Rates()


@dataclass(frozen=True, slots=True)
class Gpu:
    """What one instance runs on, all its GPUs together.

    Attributes:
        flops: Dense, bfloat16, a second.
        memory_bytes_per_s: Of its memory.
        memory_bytes: For weights and KV cache.
        flops_share, memory_share: What engines get of both.
    """

    flops: float
    memory_bytes_per_s: float
    memory_bytes: float
    flops_share: float = 0.5
    memory_share: float = 0.7

    def times(self, count: int) -> Gpu:
        """``count`` of them, with tensor parallelism that costs nothing."""
        return Gpu(
            self.flops * count,
            self.memory_bytes_per_s * count,
            self.memory_bytes * count,
            self.flops_share,
            self.memory_share,
        )


@dataclass(frozen=True, slots=True)
class Model:
    """What is run: parameters, and the width of its attention (heads x head_dim)."""

    geometry: Geometry
    parameters: float
    width: int


H100 = Gpu(flops=989e12, memory_bytes_per_s=3.35e12, memory_bytes=80e9)  # NVIDIA's sheet, SXM
LLAMA_8B = Model(KNOWN["llama-3.1-8b"], 8.03e9, 32 * 128)
LLAMA_70B = Model(KNOWN["llama-3.1-70b"], 70.6e9, 64 * 128)
PROMPT_S = 0.005  # tokenizing, scheduling, one launch
STEP_S = 0.003  # of a step of decoding, what is no reading of memory
MEMORY_FOR_CACHE = 0.9  # of what the weights leave
REQUESTS_MAX = 256


def rates_of(gpu: Gpu, model: Model, *, chunk_tokens: int = 0) -> Rates:
    """What follows for a model in bfloat16 on a GPU."""
    flops = gpu.flops * gpu.flops_share
    memory = gpu.memory_bytes_per_s * gpu.memory_share
    weights = 2 * model.parameters
    token_bytes = model.geometry.token_bytes
    return Rates(
        token_s=2 * model.parameters / flops,
        attention_s=4 * model.geometry.layers * model.width / flops,
        prompt_s=PROMPT_S,
        step_s=weights / memory + STEP_S,
        step_request_s=2 * model.parameters / flops,
        step_token_s=token_bytes / memory,
        chunk_tokens=chunk_tokens,
        requests_max=REQUESTS_MAX,
        tokens_max=int(MEMORY_FOR_CACHE * (gpu.memory_bytes - weights) / token_bytes),
        token_bytes=token_bytes,
    )


PRESETS = {
    "h100-8b": lambda: rates_of(H100, LLAMA_8B),
    "h100x4-70b": lambda: rates_of(H100.times(4), LLAMA_70B),
}


def engine_of(text: str) -> Rates:
    """A preset by its name, ``none``, or a JSON file with the fields of ``Rates``.

    Raises:
        InvalidRequest: It is none of these, or the file says what cannot be.
    """
    if text == "none":
        return INSTANT
    if text in PRESETS:
        return PRESETS[text]()
    try:
        content = msgspec.json.decode(Path(text).read_bytes())
        found = content.get("rates", content) if isinstance(content, dict) else content
        refuse_unknown(text, found, [each.name for each in fields(Rates)])
        rates = msgspec.convert(found, Rates)
    except OSError as error:
        raise InvalidRequest(
            f"`{text}` is no engine that is known, and no file: {error.strerror}",
            hint=f"known: none, {', '.join(PRESETS)}; or a JSON file with rates",
        ) from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"{text} has no rates of an engine: {error}",
            hint=f"give {', '.join(each.name for each in fields(Rates))}",
        ) from error
    _refuse_instant(text, rates)
    return rates


def refuse_unknown(where: str, found: object, known: Collection[str]) -> None:
    """Raise InvalidRequest for a field that nobody reads: it may be misspelt."""
    for name in found if isinstance(found, dict) else ():
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"is it `{near[0]}`?" if near else f"known: {', '.join(known)}"
            raise InvalidRequest(f"{where} has a field `{name}` that is not known", hint=meant)


def _refuse_instant(where: str, rates: Rates) -> None:
    """A file with times that would not count. One that knows bytes alone is good for prices."""
    if rates == INSTANT:
        raise InvalidRequest(
            f"{where} says nothing of an engine", hint="give rates, or `--engine none`"
        )
    times = [each for each in asdict(rates) if each != "token_bytes" and getattr(rates, each)]
    if rates.is_instant and times:
        raise InvalidRequest(
            f"{where} has `{times[0]}`, but no `requests_max`: nothing would take time",
            hint="give `requests_max`, the requests that are decoded at the same time",
        )
