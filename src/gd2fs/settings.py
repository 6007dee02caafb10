"""Settings: what a running node is set to; shown to whoever asks, and changed where that can be.

Requests come over the wire as JSON: ``{"do": "show"}``, or ``{"do": "set", "key": KEY, "value":
VALUE}``, where VALUE null takes a setting back. A change holds at once, and until the node ends.
The same way go questions about the node itself: ``{"do": "facts"}`` (see node_facts),
``{"do": "report"}`` (see overview.report), ``{"do": "curves"}`` (see whatif.told), and
``{"do": "trace"}`` (see key_trace.desk).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from gd2fs.config import MOVE_RATE_MIN, NodeConfig
from gd2fs.config_file import parse_key
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.membership.replicas import check_namespace
from gd2fs.nvme import Nvme, check_rate
from gd2fs.rules import PLAIN, NamespaceRules, RuleSet
from gd2fs.sizes import format_size, parse_bytes
from gd2fs.tls import Tls

log = logging.getLogger(__name__)

POLL_MS = 500  # between two looks whether the node ends
UNITS = ("_bytes_per_s", "_bytes", "_s")  # ends of the fields of NodeConfig
Questions = Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
NO_QUESTIONS: Questions = {}
NAMES = {"move_bytes_per_s": "move_rate"}
NO_OPTIONS = ("rules", "token", "tls", "is_traced")  # fields that are said in other words
HIDDEN = (*NO_OPTIONS, "etcd", "kubernetes", "nvme")  # as tables, by field, or not at all


class Server(Protocol):
    """What of the native server is set here."""

    def set_rules(
        self,
        namespace: str,
        *,
        policy: str = ...,
        demote: str | None = ...,
        keep: str | None = ...,
        quota_bytes: int = ...,
        disk_quota_bytes: int = ...,
        ttl_s: int = ...,
        pin_bytes_max: int | None = ...,
        eviction_class: int = ...,
    ) -> None: ...
    def set_move_rate(self, bytes_per_s: int) -> None: ...
    def set_nvme_rate(self, bytes_per_s: int) -> None: ...
    def spaces(self) -> Sequence[tuple[bytes, int, int, int, int, int]]: ...
    def next_question(self, timeout_ms: int) -> tuple[int, bytes] | None: ...
    def answer(self, number: int, text: bytes) -> None: ...
    def close_desk(self) -> None: ...


class Settings:
    """Of one node. Thread-safe."""

    def __init__(self, config: NodeConfig, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()  # one change after the other
        self._options = options_of(config)
        self._rules = RuleSet()
        self._unnamed: set[str] = set()  # had rules of their own; the server knows them for good
        self._has_disk = bool(config.nvme.places)
        self._changes: dict[str, Callable[[object], object]] = {
            "move_rate": self._set_move_rate,
            "nvme_rate": self._set_nvme_rate,
        }
        self._apply_all(config.rules)

    @property
    def rules(self) -> RuleSet:
        """The rules of namespaces as they are now."""
        return self._rules

    def show(self) -> dict[str, Any]:
        """Everything, as a configuration file says it."""
        with self._lock:
            return {**self._options, **self._rules.as_tables()}

    def change(self, key: str, value: object) -> None:
        """Set ``key`` as a configuration file would; None takes it back. It holds at once.

        Raises:
            InvalidRequest: No such key, or not at run time, or a value out of range. Nothing was
                changed.
        """
        parts = parse_key(key)
        with self._lock:
            if parts[0] in ("default", "namespace"):
                return self._change_rule(key, parts, value)
            change = self._changes.get(parts[0].replace("-", "_")) if len(parts) == 1 else None
            if change:
                self._options[parts[0].replace("-", "_")] = change(value)
                return None
        self._refuse(key, parts)
        return None

    def warnings(self) -> list[str]:
        """What is not as the rules want it, and stays so: pins beyond a quota."""
        return [
            f"{pinned - quota} pinned bytes of {_space_name(name)} are more than its quota of "
            f"{format_size(quota)}: they stay until they are unpinned, and nothing else of it is "
            "let into memory"
            for name, _, pinned, _, quota, _ in self._server.spaces()
            if quota and pinned > quota
        ]

    def _change_rule(self, key: str, parts: tuple[str, ...], value: object) -> None:
        is_default = parts[0] == "default"
        if len(parts) != (2 if is_default else 3):
            raise InvalidRequest(
                f"`{key}` is no rule", hint="write `default.KEY` or `namespace.NAME.KEY`"
            )
        namespace = None if is_default else parts[1]
        if namespace is not None:
            check_namespace(namespace)
        before = self._rules.default if namespace is None else self._rules.namespaces.get(namespace)
        rules = (before or PLAIN).with_value(parts[-1], value, key)
        if value is None and rules == (before or PLAIN):
            return  # it was not set: a table that is empty on purpose stays
        if value is None and rules == PLAIN and namespace is not None:
            self._unname(namespace)
            return
        changed = self._rules.with_rules(namespace, rules)
        self._apply(namespace, rules)
        self._rules = changed
        if namespace is None:
            for each in self._unnamed:
                self._apply(each, rules)
        else:
            self._unnamed.discard(namespace)

    def _unname(self, namespace: str) -> None:
        """Treat it like all that are not named, from now on."""
        self._apply(namespace, self._rules.default)
        self._rules = self._rules.without(namespace)
        self._unnamed.add(namespace)

    def _apply_all(self, rules: RuleSet) -> None:
        if rules.default != NamespaceRules():
            self._apply(None, rules.default)
        for name, each in rules.namespaces.items():
            self._apply(name, each)
        self._rules = rules

    def _apply(self, namespace: str | None, rules: NamespaceRules) -> None:
        self._server.set_rules(
            namespace or "", **{each.name: getattr(rules, each.name) for each in fields(rules)}
        )

    def _set_move_rate(self, value: object) -> object:
        rate = value if isinstance(value, int) else parse_bytes(str(value or "1GiB"))
        if rate < MOVE_RATE_MIN:
            raise InvalidRequest(
                f"`move_rate` is {value!r}", hint=f"{MOVE_RATE_MIN >> 20}MiB is the least"
            )
        self._server.set_move_rate(rate)
        return format_size(rate)

    def _set_nvme_rate(self, value: object) -> object:
        rate = value if isinstance(value, int) else parse_bytes(str(value or 0))
        check_rate(rate)
        if not self._has_disk:
            raise InvalidRequest("this node has no disk", hint="start it with `--nvme FOLDER`")
        self._server.set_nvme_rate(rate)
        return format_size(rate)

    def _refuse(self, key: str, parts: tuple[str, ...]) -> None:
        names = ", ".join(f"`{each}`" for each in (*self._changes, "default.*", "namespace.NAME.*"))
        if len(parts) == 1 and parts[0].replace("-", "_") in OPTIONS:
            raise InvalidRequest(
                f"`{key}` is read when the node starts",
                hint=f"change its file, and start it again; at run time: {names}",
            )
        raise InvalidRequest(f"`{key}` is no setting", hint=f"at run time: {names}")


class SettingsDesk:
    """Answers requests about settings from one thread, until ``stop``."""

    def __init__(
        self, settings: Settings, server: Server, others: Questions = NO_QUESTIONS
    ) -> None:
        """``others``: what else is answered, by its word; they are given the request."""
        self._settings = settings
        self._server = server
        self._others = others
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="gd2fs-settings", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the request that it is about."""
        self._is_stopping = True
        self._server.close_desk()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            question = self._server.next_question(POLL_MS)
            if question is not None:
                number, text = question
                self._server.answer(number, json.dumps(self._answer(text)).encode())

    def _answer(self, text: bytes) -> Mapping[str, Any]:
        try:
            return answer(self._settings, text, self._others)
        except GD2FSError as error:
            return {"error": str(error), "hint": error.hint}
        except Exception as error:  # the thread's top: whoever asks has to hear something
            log.exception("a request about settings failed")
            return {"error": f"{type(error).__name__}: {error}", "hint": "see the node's log"}


def answer(settings: Settings, text: bytes, others: Questions = NO_QUESTIONS) -> Mapping[str, Any]:
    """What a request comes to. Raises InvalidRequest."""
    try:
        request = json.loads(text)
        do = request["do"]
    except (ValueError, TypeError, KeyError) as cause:
        raise InvalidRequest("that is no request", hint='`{"do": "show"}` is one') from cause
    if isinstance(do, str) and do in others:
        return others[do](request)
    if do == "show":
        return {"settings": settings.show()}
    if do == "set" and isinstance(request.get("key"), str):
        key, value = request["key"], request.get("value")
        settings.change(key, value)
        if value is None:
            log.info("unset %s", key)
        else:
            log.info("set %s to %r", key, value)
        return {"settings": settings.show(), "warnings": settings.warnings()}
    raise InvalidRequest(f"`{do}` is no request about settings", hint="`show` or `set`")


def options_of(config: NodeConfig) -> dict[str, Any]:
    """The options that ``gd2fs serve`` was given, or took, as a configuration file says them."""
    options = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if each.name in HIDDEN or value is None or value == () or value == "":
            continue
        is_size = "_bytes" in each.name
        options[option_name(each.name)] = format_size(value) if is_size else _shown(value)
    if config.etcd:
        options["etcd"] = ",".join(config.etcd.endpoints)
        for name in ("user", "ca", "cert", "key"):
            if getattr(config.etcd, name):
                options[f"etcd_{name}"] = getattr(config.etcd, name)
    if config.kubernetes:
        options["kubernetes"] = config.kubernetes.namespace
        options["kubernetes_api"] = config.kubernetes.api
        options["kubernetes_account"] = config.kubernetes.account
    return options | _nvme_options(config.nvme) | _tls_options(config.tls)


def _nvme_options(nvme: Nvme) -> dict[str, Any]:
    if not nvme.places:
        return {}
    places = (
        each.folder + (f":{format_size(each.bytes_max)}" if each.bytes_max else "")
        for each in nvme.places
    )
    options: dict[str, Any] = {"nvme": ",".join(places)}
    if nvme.write_bytes_per_s:
        options["nvme_rate"] = format_size(nvme.write_bytes_per_s)
    return options | {"nvme_write": nvme.write, "nvme_keep": nvme.keep}


def _tls_options(tls: Tls) -> dict[str, Any]:
    if not tls.is_on:
        return {}
    words = {"tls_cert": tls.cert, "tls_key": tls.key, "tls_ca": tls.ca, "tls_name": tls.name}
    return {key: word for key, word in words.items() if word} | {"tls_clients": tls.clients}


def _space_name(name: bytes) -> str:
    text = name.decode("utf-8", "replace")
    return f"namespace `{text}`" if text else "the namespaces without rules"


def option_name(field_name: str) -> str:
    """Of a field of NodeConfig: what its option is called."""
    if field_name in NAMES:
        return NAMES[field_name]
    for unit in UNITS:
        if field_name.endswith(unit):
            return field_name.removesuffix(unit)
    return field_name


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return value if isinstance(value, (int, float)) else str(value)


OPTIONS = {option_name(each.name) for each in fields(NodeConfig)}.difference(NO_OPTIONS) | {
    "nvme_rate",
    "nvme_write",
    "nvme_keep",
    "tls_cert",
    "tls_key",
    "tls_ca",
    "tls_name",
    "tls_clients",
}
