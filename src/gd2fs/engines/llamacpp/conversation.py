"""Conversation: under which names a request's KV cache is looked up and kept.

A client may name its conversation (``session`` in the body, or ``X-Session-Id``): one file,
overwritten turn by turn. A plain OpenAI client names nothing, but sends the whole history, so a
hash of the history is the name. A turn is kept under the hash of the messages it was asked with,
without its answer: the next turn begins with just these messages, however the client renders the
answer in between. Its tokens are in the file too; llama.cpp compares them with the new prompt and
uses what agrees, so a wrong guess costs time, never a wrong token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gd2fs.errors import InvalidRequest

SESSION_CHARACTERS_MAX = 1024
NAME_DIGITS = 40  # 160 bits of SHA-256
PREFIXES_MAX = 8  # names to look up for a history: this turn's, then earlier ones, newest first


@dataclass(frozen=True, slots=True)
class Conversation:
    """Names of one request's KV cache.

    Attributes:
        kept_as: Where this turn's state goes.
        sought: Where an earlier state may lie, the longest first.
    """

    kept_as: str
    sought: tuple[str, ...]


def conversation_of(body: Mapping[str, Any], session_header: str | None) -> Conversation | None:
    """Read the names from a request; None when it has neither a session nor messages.

    Raises:
        InvalidRequest: The session is not a text of 1 to ``SESSION_CHARACTERS_MAX`` characters.
    """
    session = body.get("session", session_header)
    if session is not None:
        name = "session-" + _digest(_checked_session(session))
        return Conversation(kept_as=name, sought=(name,))
    messages = body.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        return None
    names = _history_names(messages, tools=body.get("tools"))
    return Conversation(kept_as=names[0], sought=tuple(names))


def _checked_session(session: object) -> str:
    if not isinstance(session, str) or not 0 < len(session) <= SESSION_CHARACTERS_MAX:
        raise InvalidRequest(
            f"`session` must be a text of 1 to {SESSION_CHARACTERS_MAX} characters"
        )
    return session


def _history_names(messages: Sequence[Any], *, tools: object) -> list[str]:
    """Names of the whole history and of what earlier turns were asked with, newest first."""
    running = hashlib.sha256(_canonical(tools))
    names = []
    for at, message in enumerate(messages):
        if at and _is_answer(message):
            names.append(_history_name(running.hexdigest()))
        text = _canonical(message)
        running.update(len(text).to_bytes(8, "little") + text)
    names.append(_history_name(running.hexdigest()))
    return names[::-1][:PREFIXES_MAX]


def _is_answer(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def _history_name(digest: str) -> str:
    return "history-" + digest[:NAME_DIGITS]


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:NAME_DIGITS]
