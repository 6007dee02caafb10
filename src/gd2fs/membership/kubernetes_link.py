"""KubernetesLink: requests to the API of Kubernetes, as a pod's service account.

Not thread-safe: every thread has a link of its own. The account's token and authority are read from
their files for every request, since they are replaced while a pod runs. What the API cannot do now
is Unavailable, what it will never do is InvalidRequest.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gd2fs.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # where pods have theirs
ANSWER_BYTES_MAX = 8 << 20  # an object has 1.5 MiB at most, what is wrapped around it less
TOKEN_BYTES_MAX = 64 << 10
TEXT_MAX = 200  # characters of the API's words in a message
READ_BYTES = 64 << 10

OK, CREATED, NOT_FOUND, CONFLICT, GONE = 200, 201, 404, 409, 410
ANSWERS = (OK, CREATED, NOT_FOUND, CONFLICT, GONE)  # all of them mean something to who asked
NOT_NOW = (408, 429)  # and all from 500 on

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """How the API is reached.

    Attributes:
        namespace: Where the objects of the cluster are.
        api: URL, `https://HOST:PORT`.
        account: Folder with `token` and, for `https`, `ca.crt`.
    """

    namespace: str
    api: str
    account: str = ACCOUNT

    @property
    def token(self) -> str:
        """Path of the file with the token."""
        return os.path.join(self.account, "token")

    @property
    def ca(self) -> str:
        """Path of the file with who vouches for the API's certificate; empty without TLS."""
        return os.path.join(self.account, "ca.crt") if self.api.startswith("https://") else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said: a status of ``ANSWERS``, and an object, empty where it sent none."""

    status: int
    object: Object


class KubernetesLink:
    """Asks the API.

    Args:
        settings: Where, and as whom.
        timeout_s: For a connection, for an answer to begin, and for it to end.
    """

    def __init__(self, settings: KubernetesSettings, timeout_s: float) -> None:
        self.settings = settings
        self.timeout_s = timeout_s
        self._pool: PoolManager | None = None
        self._ca_version = 0

    def call(
        self, method: str, path: str, body: Object | None = None, *, accept: str = ""
    ) -> Answer:
        """Ask for ``path``, with ``body`` as JSON.

        Raises:
            Unavailable: It does not answer in time, or cannot do it now.
            InvalidRequest: It refuses this, or this account, whatever is tried again.
        """
        response = self._send(method, path, body, accept, self.timeout_s)
        try:
            raw = self._read(response)
        finally:
            response.close()
        return self._answer_of(response.status, raw)

    @contextmanager
    def lines(self, path: str, silence_s: float) -> Iterator[Iterator[bytes]]:
        """Ask for ``path`` and give the answer line by line; it ends after a silence.

        Raises:
            Unavailable, InvalidRequest: As ``call``; the first also when the answer breaks off.
        """
        response = self._send("GET", path, None, "", silence_s)
        try:
            if response.status != OK:
                answer = self._answer_of(response.status, self._read(response))
                yield iter([json.dumps({"type": "ERROR", "object": answer.object}).encode()])
            else:
                yield self._lines(response)
        finally:
            response.close()

    def _send(
        self, method: str, path: str, body: Object | None, accept: str, silence_s: float
    ) -> BaseHTTPResponse:
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Accept": accept or "application/json",
            "Content-Type": "application/json",
            "User-Agent": "gd2fs",
        }
        try:
            return self._connections().request(
                method,
                self.settings.api + path,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=Timeout(connect=self.timeout_s, read=silence_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise self._unavailable(_words_of(error)) from error

    def _read(self, response: BaseHTTPResponse) -> bytes:
        from urllib3.exceptions import HTTPError

        end_s = time.monotonic() + self.timeout_s
        raw = b""
        try:
            while part := response.read1(READ_BYTES):
                raw += part
                if len(raw) > ANSWER_BYTES_MAX or time.monotonic() > end_s:
                    raise self._unavailable("its answer has no end")
        except (HTTPError, OSError) as error:
            raise self._unavailable(_words_of(error)) from error
        return raw

    def _lines(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        waiting = b""
        try:
            while part := response.read1(READ_BYTES):
                *lines, waiting = (waiting + part).split(b"\n")
                if len(waiting) > ANSWER_BYTES_MAX:
                    raise self._unavailable("its answer has no end")
                yield from (line for line in lines if line.strip())
        except ReadTimeoutError:
            return  # silence
        except (HTTPError, OSError) as error:
            raise self._unavailable(_words_of(error)) from error

    def _answer_of(self, status: int, raw: bytes) -> Answer:
        try:
            said = json.loads(raw) if raw.strip() else {}
        except ValueError:
            said = {}
        body = said if isinstance(said, dict) else {}
        if status in ANSWERS:
            return Answer(status, body)
        words = str(body.get("message") or raw[:TEXT_MAX].decode("utf-8", "replace"))[:TEXT_MAX]
        if status >= 500 or status in NOT_NOW:
            raise self._unavailable(f"status {status}, {words}")
        raise InvalidRequest(
            f"the API of Kubernetes at {self.settings.api} refuses: {words or status}",
            hint=_HINTS.get(status, "look at the log of the API server"),
        )

    def _unavailable(self, words: str) -> Unavailable:
        return Unavailable(
            f"the API of Kubernetes at {self.settings.api} does not answer: {words[:TEXT_MAX]}",
            hint="is it running, and reachable from here?",
        )

    def _token(self) -> str:
        try:
            with open(self.settings.token, encoding="ascii") as file:
                return file.read(TOKEN_BYTES_MAX).strip()
        except (OSError, UnicodeError) as error:
            raise InvalidRequest(
                f"cannot read {self.settings.token}: {getattr(error, 'strerror', error)}",
                hint="run in a pod with a service account, or name a folder that has a `token` "
                "with `--kubernetes-account`",
            ) from error

    def _connections(self) -> PoolManager:
        """Made anew when the authority's file is another one."""
        try:
            version = os.stat(self.settings.ca).st_mtime_ns if self.settings.ca else 1
        except OSError as error:
            raise InvalidRequest(
                f"cannot read {self.settings.ca}: {error.strerror}",
                hint="it says who vouches for the API's certificate",
            ) from error
        if self._pool is None or version != self._ca_version:
            self._pool = _pool_of(self.settings)
            self._ca_version = version
        return self._pool


def _pool_of(settings: KubernetesSettings) -> PoolManager:
    try:
        from urllib3 import PoolManager
    except ImportError as error:
        raise InvalidRequest(
            "`urllib3` is not installed", hint="run `pip install 'gd2fs[kubernetes]'`"
        ) from error
    return PoolManager(
        num_pools=1,
        maxsize=1,
        cert_reqs="CERT_REQUIRED",
        ca_certs=settings.ca or None,
    )


_HINTS = {
    401: "its token is none of this cluster, or is over",
    403: "bind the service account to a Role for `leases` and `configmaps`, as the chart does",
}


def _words_of(error: Exception) -> str:
    """The system's own words, where there are any, without all that they are wrapped in."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = getattr(cause, "reason", None) or cause.__cause__ or cause.__context__
        if not isinstance(cause, BaseException):
            break
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
