"""Body: what a request says in JSON, read within bounds and checked against a type."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from gd2fs.errors import InvalidRequest

T = TypeVar("T", bound=msgspec.Struct)


class TooLong(InvalidRequest):
    """A body of more bytes than its route takes."""


class EndedEarly(InvalidRequest):
    """The connection is gone in the middle of a body: nobody is left to be refused."""


async def body_of(request: Request, kind: type[T], *, bytes_max: int) -> T:
    """The body as ``kind``, whose fields are all that may stand in it.

    Raises:
        TooLong: It has more than ``bytes_max`` bytes. The rest is not read.
        EndedEarly: It was not all there when the connection ended.
        InvalidRequest: It is no such JSON.
    """
    text = await _text_of(request, bytes_max)
    fields = ", ".join(each.name for each in msgspec.structs.fields(kind))
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as cause:
        where = f"the body is not what it should be: {cause}"
        raise InvalidRequest(where, hint=f"it is an object of {fields}") from cause
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        where = f"the body is no JSON: {cause}"
        raise InvalidRequest(where, hint=f"send an object of {fields}") from cause


def is_json(request: Request) -> bool:
    """It says so of its body; a page of another site cannot, unless the node had allowed it."""
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"


def is_of_another_site(request: Request) -> bool:
    """A browser asks, for a page that is not this node's own."""
    origin = request.headers.get("origin", "")
    return bool(origin) and origin.partition("://")[2] != request.headers.get("host")


def refuse_other_sites(request: Request) -> None:
    """Another site's page, open in an operator's browser, must not act in the operator's place."""
    if not is_json(request):
        raise InvalidRequest("the body is no JSON", hint="send `content-type: application/json`")
    if is_of_another_site(request):
        raise InvalidRequest("asked by another site's page", hint="use this node's own page")


async def _text_of(request: Request, bytes_max: int) -> bytes:
    text = bytearray()
    try:
        async for part in request.stream():
            text += part
            if len(text) > bytes_max:
                raise TooLong(f"the body has more than {bytes_max} bytes", hint="send less at once")
    except ClientDisconnect as cause:
        raise EndedEarly("the body ended early", hint="send all of it") from cause
    return bytes(text)
