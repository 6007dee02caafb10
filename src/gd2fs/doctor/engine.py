"""Engine: whether running servers were started so that they share what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gd2fs.doctor.check import check
from gd2fs.doctor.engine_process import EngineProcess, engines_here
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.subject import Subject
from gd2fs.engines.sglang.launch import BACKEND
from gd2fs.engines.vllm.versions import is_known, window
from gd2fs.sizes import format_bytes

ALGORITHM = "sha256_cbor"
SEED = "PYTHONHASHSEED"
POOL_FILES = "vllm_offload_"
MODEL_FLAGS = ("--served-model-name", "--model-path", "--model")
PAGE_FLAGS = (
    *("--page-size", "--block-size", "--kv-cache-dtype", "--dtype"),
    "--prefix-caching-hash-algo",
)
TIERS = ("gd2fs", "GD2FSTier")


def _servers(subject: Subject, engine: str) -> list[EngineProcess]:
    return engines_here(subject.machine, engine) if subject.engine == engine else []


@check("engine", "settings are read from servers that run, by their command lines")
def running(subject: Subject) -> Iterator[Finding]:
    """There is one, of a release that the plug-in fits."""
    if not subject.engine:
        return
    count = len(engines_here(subject.machine, subject.engine))
    guide = f"docs/guides/{subject.engine}.md"
    if count:
        yield ok(f"{count} of {subject.engine} run here")
    else:
        fix = f"start one as {guide} says, and ask again; as root, to see its environment too"
        yield note(f"no {subject.engine} runs here", fix)
    version = subject.machine.probes.package(subject.engine)
    if not version:
        yield note(
            f"{subject.engine} is not in this environment: its release is not known",
            f"ask with the engine's own Python: `PYTHON -m gd2fs doctor --engine {subject.engine}`",
        )
    elif subject.engine == "vllm" and not is_known(version):
        fix = f"install vllm {window()}, or a newer gd2fs"
        yield error(f"vllm {version}: the plug-in does not start with it", fix)
    else:
        yield ok(f"{subject.engine} {version}")


# ---- SGLang --------------------------------------------------------------------------------------


@check("HiCache", "GD2FS is the third level of SGLang's HiCache: without that there is none")
def hicache(subject: Subject) -> Iterator[Finding]:
    """On, with GD2FS behind it."""
    for each in _servers(subject, "sglang"):
        extra = each.json("--hicache-storage-backend-extra-config")
        told = each.flags.get("--hicache-storage-backend-extra-config", "")
        if "--enable-hierarchical-cache" not in each.flags:
            yield _wrong(each, "no HiCache", "--enable-hierarchical-cache", is_error=True)
        elif each.flags.get("--hicache-storage-backend") != "dynamic":
            fix = "--hicache-storage-backend dynamic"
            yield _wrong(each, "no dynamic storage backend", fix, is_error=True)
        elif told.startswith("@"):
            yield ok(f"process {each.pid}: settings are in {told[1:]}")
        elif any(extra.get(key) != BACKEND[key] for key in ("module_path", "class_name")):
            yield _wrong(
                each,
                "its storage backend is not GD2FS",
                "--hicache-storage-backend-extra-config with `backend_name`, `module_path` and "
                "`class_name` as docs/guides/sglang.md has them",
                is_error=True,
            )
        else:
            yield ok(f"process {each.pid}: HiCache with GD2FS")


@check(
    "flags of SGLang",
    "a turn goes to any instance only if pages are stored at once, and waited for",
)
def sglang_flags(subject: Subject) -> Iterator[Finding]:
    """As the guide says."""
    for each in _servers(subject, "sglang"):
        wrong = list(_sglang_faults(each))
        yield from wrong or [ok(f"process {each.pid}: as docs/guides/sglang.md says")]


def _sglang_faults(each: EngineProcess) -> Iterator[Finding]:
    flags = each.flags
    if "--page-size" not in flags:
        yield _wrong(each, "its page size is SGLang's choice", "--page-size 64")
    if flags.get("--hicache-mem-layout", "layer_first") != "page_first":
        yield _wrong(each, "a page is two pieces for each layer", "--hicache-mem-layout page_first")
    if flags.get("--hicache-write-policy", "write_through") != "write_through":
        yield _wrong(each, "pages are stored late", "--hicache-write-policy write_through")
    if flags.get("--hicache-storage-prefetch-policy") != "wait_complete":
        fix = "--hicache-storage-prefetch-policy wait_complete"
        yield _wrong(each, "it computes what is on its way", fix)
    if not {"--hicache-ratio", "--hicache-size"} & set(flags):
        yield _wrong(each, "host memory is SGLang's choice", "--hicache-ratio 2")
    extra = each.json("--hicache-storage-backend-extra-config")
    if extra and not extra.get("interface_v1"):
        yield _wrong(each, "pages are copied on their way", '"interface_v1": 1 in the extra config')
    if "--enable-metrics" not in flags:
        yield note(f"process {each.pid}: no metrics", "`--enable-metrics --enable-cache-report`")


@check(
    "compiled files",
    "a server that is killed while it compiles may leave an empty library, and no later one starts",
)
def compiled_files(subject: Subject) -> Iterator[Finding]:
    """None of those that SGLang keeps is empty."""
    if subject.engine != "sglang":
        return
    machine = subject.machine
    folder = _compiled_at(machine.environment)
    libraries = machine.files(folder, ".so")
    empty = [path for path in libraries if (at := machine.status(path)) and at.st_size == 0]
    if empty:
        yield error(
            f"{len(empty)} of {len(libraries)} libraries below {folder} are empty: {empty[0]}",
            f"`find {folder} -name '*.so' -size 0 -delete`, and start the server again",
        )
    else:
        yield ok(f"{len(libraries)} libraries below {folder}")


def _compiled_at(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or "/root"
    return environment.get("TORCHINDUCTOR_CACHE_DIR") or f"{home}/.cache/sglang"


# ---- vLLM ----------------------------------------------------------------------------------------


@check("offloading", "GD2FS is a tier below vLLM's offloading connector")
def offloading(subject: Subject) -> Iterator[Finding]:
    """On, with GD2FS as its second tier."""
    for each in _servers(subject, "vllm"):
        transfer = each.json("--kv-transfer-config")
        extra = _extra(transfer)
        tiers = [tier for tier in extra.get("secondary_tiers", ()) if isinstance(tier, dict)]
        if transfer.get("kv_connector") != "OffloadingConnector":
            yield _wrong(each, "no offloading", "--kv-transfer-config", is_error=True)
        elif not any(tier.get("type") in TIERS for tier in tiers):
            fix = '"secondary_tiers": [{"type": "gd2fs", "cp": …, "cluster": …}]'
            yield _wrong(each, "no tier of GD2FS", fix, is_error=True)
        elif extra.get("spec_name") != "TieringOffloadingSpec":
            fix = '"spec_name": "TieringOffloadingSpec"'
            yield _wrong(each, "an offloading without tiers", fix, is_error=True)
        else:
            yield ok(f"process {each.pid}: offloading with GD2FS")


@check(
    "flags of vLLM",
    "keys differ between instances that hash otherwise, and a failed load may fail a request",
)
def vllm_flags(subject: Subject) -> Iterator[Finding]:
    """As the guide says."""
    for each in _servers(subject, "vllm"):
        wrong = list(_vllm_faults(each))
        yield from wrong or [ok(f"process {each.pid}: as docs/guides/vllm.md says")]


def _vllm_faults(each: EngineProcess) -> Iterator[Finding]:
    transfer = each.json("--kv-transfer-config")
    extra = _extra(transfer)
    if each.flags.get("--prefix-caching-hash-algo") != ALGORITHM:
        fix = f"--prefix-caching-hash-algo {ALGORITHM}"
        yield _wrong(each, "its keys depend on the version of Python", fix)
    if "--no-enable-prefix-caching" in each.flags:
        yield _wrong(each, "no prefix caching", "no --no-enable-prefix-caching", is_error=True)
    if "--shutdown-timeout" not in each.flags:
        yield _wrong(each, "it ends without storing the last pages", "--shutdown-timeout 10")
    if transfer and transfer.get("kv_load_failure_policy") != "recompute":
        fix = '"kv_load_failure_policy": "recompute"'
        yield _wrong(each, "a load that fails ends its request", fix)
    if transfer and extra.get("offload_prompt_only", True):
        fix = '"offload_prompt_only": false'
        yield note(f"process {each.pid}: answers are not stored", f"`{fix}`, unless it reasons")


@check(
    "seed of hashes", "instances with different seeds come to different keys for the same tokens"
)
def seed(subject: Subject) -> Iterator[Finding]:
    """The same for all of a model, or none."""
    for servers in _by_model(_servers(subject, "vllm")):
        seeds = {each.pid: each.environment.get(SEED) for each in servers if each.environment}
        if len(set(seeds.values())) > 1:
            shown = ", ".join(f"{pid} has {'one' if own else 'none'}" for pid, own in seeds.items())
            fix = f"set {SEED} to the same value for all, or for none"
            yield error(f"{SEED} differs: {shown}", fix)
        elif seeds:
            yield ok(f"{SEED} is the same for all {len(seeds)} here")


@check(
    "pool", "the pool of an instance is a file in /dev/shm; one that is too large kills it on use"
)
def pool(subject: Subject) -> Iterator[Finding]:
    """/dev/shm holds all pools, and none is left over."""
    if subject.engine != "vllm":
        return
    machine = subject.machine
    servers = _servers(subject, "vllm")
    needed = sum(_bytes(_extra(each.json("--kv-transfer-config"))) for each in servers)
    room = machine.probes.room(str(machine.path("/dev/shm")))
    if room is not None and needed > room.size_bytes:
        size = -(-needed // (1 << 30)) + 1
        yield error(
            f"pools take {format_bytes(needed)}, /dev/shm has {format_bytes(room.size_bytes)}",
            f"`mount -o remount,size={size}g /dev/shm`; for a container `--shm-size={size}g`",
        )
    left = [name for name in machine.names("/dev/shm") if name.startswith(POOL_FILES)]
    if left and not servers:
        yield warning(
            f"{len(left)} pools are in /dev/shm and no vLLM runs",
            f"`rm /dev/shm/{POOL_FILES}*.mmap`",
        )
    else:
        yield ok(f"{len(left)} pools")


@check("instances alike", "instances share a page only where its size and meaning are the same")
def alike(subject: Subject) -> Iterator[Finding]:
    """All of a model on this machine have the same settings of pages."""
    if not subject.engine:
        return
    for servers in _by_model(engines_here(subject.machine, subject.engine)):
        for flag in PAGE_FLAGS:
            values = {each.flags.get(flag, "") for each in servers}
            if len(values) > 1:
                shown = ", ".join(sorted(value or "none" for value in values))
                yield warning(f"`{flag}` differs: {shown}", f"start all with the same `{flag}`")
        if len(servers) > 1:
            yield ok(f"{len(servers)} were compared")


def _by_model(servers: Iterable[EngineProcess]) -> Iterable[list[EngineProcess]]:
    """Those of one served name each: others share nothing anyway."""
    found: dict[str, list[EngineProcess]] = {}
    for each in servers:
        names = (each.flags.get(flag, "") for flag in MODEL_FLAGS)
        found.setdefault(next(filter(None, names), ""), []).append(each)
    return found.values()


def _extra(transfer: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = transfer.get("kv_connector_extra_config")
    return extra if isinstance(extra, dict) else {}


def _bytes(extra: Mapping[str, Any]) -> int:
    size = extra.get("cpu_bytes_to_use", 0)
    return size if isinstance(size, int) else 0


def _wrong(each: EngineProcess, what: str, flag: str, *, is_error: bool = False) -> Finding:
    fix = f"`{flag}`"
    return (error if is_error else warning)(f"process {each.pid}: {what}", fix)
