"""Native: llama.cpp's own server, started inside this process on a free port of loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gd2fs.engines.llamacpp.settings import EngineSettings
from gd2fs.errors import InvalidRequest

KV_TYPE_F16 = 1  # ggml_type; K and V are kept in it
FLASH_ATTENTION_ON = 1  # fixed, not `auto`: it decides how V lies in a saved slot
LOG_ERRORS = 1
HTTP_THREADS_PER_SLOT = 2  # one streams an answer, one saves, restores or tokenizes


class Engine:
    """A running llama.cpp server. ``address`` is its base URL; it lives as long as this object."""

    def __init__(self, settings: EngineSettings, slot_directory: Path) -> None:
        """Load the model and serve.

        Args:
            settings: Of the instance.
            slot_directory: Where the engine writes and reads saved slots.

        Raises:
            InvalidRequest: xllamacpp is missing, or the file is not a model that it can load.
        """
        xllamacpp = import_xllamacpp()
        check_model_file(settings.model)
        try:
            self._server = xllamacpp.Server(_parameters(xllamacpp, settings, slot_directory))
        except RuntimeError as error:
            raise InvalidRequest(
                f"llama.cpp cannot load {settings.model}: {error}",
                hint="its reason is above; try another GGUF file, or less `--ctx`",
            ) from error
        self.address: str = self._server.listening_address


def engine_version() -> str:
    """Version of the engine: what it wrote another version may not read."""
    xllamacpp = import_xllamacpp()
    return f"{xllamacpp.__version__}-{xllamacpp.BUILD_INFO['commit']}"


def import_xllamacpp() -> Any:
    """The engine's module, or InvalidRequest that says how to install it."""
    try:
        import xllamacpp  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidRequest(
            f"the engine is not installed: {error}", hint="run `pip install 'gd2fs[demo]'`"
        ) from error
    return xllamacpp


def check_model_file(path: str) -> None:
    """Raise InvalidRequest unless ``path`` is a file that begins as GGUF does."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the model {path}: {error.strerror}", hint="pass `--model FILE.gguf`"
        ) from error
    if magic != b"GGUF":
        raise InvalidRequest(f"{path} is not a GGUF file", hint="pass `--model FILE.gguf`")


def _parameters(xllamacpp: Any, settings: EngineSettings, slot_directory: Path) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings.model
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.cpuparams.n_threads = settings.threads
    parameters.cpuparams_batch.n_threads = settings.threads
    parameters.n_threads_http = settings.slots * HTTP_THREADS_PER_SLOT + 2
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.ctx * settings.slots
    # One step of the engine is one ubatch: another slot's tokens wait for no more than that.
    parameters.n_batch = parameters.n_ubatch = settings.ubatch
    parameters.kv_unified = False  # slots that share cells would round differently
    parameters.flash_attn_type = FLASH_ATTENTION_ON
    parameters.cache_type_k = parameters.cache_type_v = KV_TYPE_F16
    parameters.n_gpu_layers = 0
    parameters.fit_params = False
    parameters.cache_ram_mib = settings.cache_ram_mib
    parameters.slot_save_path = f"{slot_directory}/"
    parameters.endpoint_slots = True
    parameters.ui = False
    parameters.verbosity = LOG_ERRORS
    return parameters
