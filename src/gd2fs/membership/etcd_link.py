"""EtcdLink: requests to etcd's JSON gateway, at one endpoint after the other until one answers.

Not thread-safe: every thread has a link of its own. What etcd cannot do now is Unavailable, what it
will never do is InvalidRequest.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.peers import PORT_MAX, parse_address

if TYPE_CHECKING:
    from etcd3gw.client import Etcd3Client

ENDPOINTS_MAX = 16
PORT_DEFAULT = 2379
TEXT_MAX = 200  # characters of etcd's words in a message
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^\"')]+)")
LINE_BYTES_MAX = 64 << 20  # of one answer of a watch: etcd's own limit is 1.5 MiB for a request

_SYNTAX = "write `--etcd http://HOST:2379,http://HOST2:2379`"
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "user name is empty")
_NEVER = ("authentication failed", "permission denied", "authentication is not enabled")
_MEMBERS_TROUBLE = ("no leader", "request timed out", "server stopped", "leader changed")


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """How etcd is reached.

    Attributes:
        endpoints: URLs, `http://HOST:PORT` each.
        user: For etcd with authentication; empty: none.
        password: Of the user.
        ca: File of the authority that the server's certificate is from; empty: the system's.
        cert: File of the client's own certificate; empty: none.
        key: File of its key.
    """

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise InvalidRequest(
                "a certificate without its key, or a key alone",
                hint="pass `--etcd-cert FILE` and `--etcd-key FILE`",
            )
        if self.password and not self.user:
            raise InvalidRequest("a password of etcd without a user", hint="pass `--etcd-user`")

    def __repr__(self) -> str:
        return f"EtcdSettings({','.join(self.endpoints)})"  # without the password


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Read ``http://HOST:PORT,…``; scheme and port may be left out.

    Raises:
        InvalidRequest: None, too many, or not addresses.
    """
    endpoints = tuple(_endpoint(part.strip()) for part in text.split(",") if part.strip())
    if not 1 <= len(endpoints) <= ENDPOINTS_MAX:
        raise InvalidRequest(f"{len(endpoints)} endpoints of etcd", hint=_SYNTAX)
    return endpoints


def _endpoint(text: str) -> str:
    scheme, separator, address = text.rpartition("://")
    scheme = scheme if separator else "http"
    address = address.removesuffix("/")
    if scheme not in ("http", "https") or "/" in address:
        raise InvalidRequest(f"`{text}` is no endpoint of etcd", hint=_SYNTAX)
    has_port = ":" in address and not address.endswith("]")
    host, port = parse_address(address if has_port else f"{address}:{PORT_DEFAULT}")
    return f"{scheme}://{host}:{port}"


class EtcdLink:
    """Asks etcd. The endpoint that answered last is asked first.

    Args:
        settings: Where, and as whom.
        timeout_s: For one endpoint to answer.
    """

    def __init__(self, settings: EtcdSettings, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._clients = [
            _client_of(settings, endpoint, timeout_s) for endpoint in settings.endpoints
        ]
        self._at = 0
        self._has_token = False

    @property
    def endpoint(self) -> str:
        """The one that is asked first."""
        return self._settings.endpoints[self._at]

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post ``body`` to ``/v3/PATH`` and return the answer.

        Raises:
            Unavailable: No endpoint answered, or etcd cannot do it now.
            InvalidRequest: etcd refuses it, or this user.
        """
        return self._somewhere(lambda client: client.post(client.get_url(path), json=body))

    @contextmanager
    def stream(
        self, path: str, body: dict[str, Any], silence_s: float
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Post ``body`` and give the answers one by one; they end after ``silence_s`` without one.

        Raises:
            Unavailable, InvalidRequest: As ``call``; the first also when the stream breaks.
        """
        timeouts = (self._timeout_s, silence_s)

        def post(client: Etcd3Client) -> Any:
            url = client.get_url(path)
            return client.session.post(url, json=body, stream=True, timeout=timeouts)

        response = self._somewhere(post)
        with response:
            if response.status_code != 200:
                raise self._refusal(response.text)
            yield self._lines(response)

    def next_endpoint(self) -> None:
        """Ask another one first from now on."""
        self._at = (self._at + 1) % len(self._clients)

    def forget_token(self) -> None:
        """Authenticate again before the next request."""
        self._has_token = False

    def close(self) -> None:
        """End its connections."""
        for client in self._clients:
            client.session.close()

    def _somewhere(self, ask: Any) -> Any:
        from etcd3gw.exceptions import Etcd3Exception
        from requests import RequestException

        fault: Unavailable | None = None
        for _ in self._clients:
            for is_first in (True, False):
                try:
                    self._authenticate()
                    return ask(self._clients[self._at])
                except Etcd3Exception as error:
                    words = _words_of(error)
                    if is_first and self._settings.user and _is_any(_STALE_TOKEN, words):
                        self._has_token = False
                        continue
                    fault = self._unavailable(words, error)
                except (RequestException, ValueError, KeyError) as error:
                    fault = self._unavailable(str(error), error)
                break
            self.next_endpoint()
        assert fault is not None
        raise fault

    def _authenticate(self) -> None:
        if self._has_token or not self._settings.user:
            return
        client = self._clients[self._at]
        for each in self._clients:
            each.session.headers.pop("Authorization", None)
        answer = client.post(
            client.get_url("/auth/authenticate"),
            json={"name": self._settings.user, "password": self._settings.password},
        )
        for each in self._clients:
            each.session.headers["Authorization"] = answer["token"]
        self._has_token = True

    def _unavailable(self, words: str, cause: Exception) -> Unavailable:
        """Raises InvalidRequest instead where another try cannot help."""
        if _is_any(_NEVER, words) or (
            "etcdserver: " in words and not _is_any(_MEMBERS_TROUBLE, words)
        ):
            raise self._refusal(words) from cause
        fault = Unavailable(
            f"etcd at {self.endpoint} does not answer: {_brief(words)}",
            hint="is it running, and reachable from here?",
        )
        fault.__cause__ = cause
        return fault

    def _refusal(self, words: str) -> InvalidRequest:
        return InvalidRequest(
            f"etcd at {self.endpoint} refuses: {words[:TEXT_MAX]}",
            hint="look at `--etcd-user` and `GD2FS_ETCD_PASSWORD`"
            if _is_any((*_NEVER, *_STALE_TOKEN), words)
            else "look at etcd's log",
        )

    def _lines(self, response: Any) -> Iterator[dict[str, Any]]:
        from requests import RequestException
        from requests.exceptions import ReadTimeout

        waiting = b""
        try:
            for part in response.iter_content(chunk_size=None):
                *lines, waiting = (waiting + part).split(b"\n")
                if len(waiting) > LINE_BYTES_MAX:
                    raise Unavailable(f"etcd at {self.endpoint} sends no end", hint="is it etcd?")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        except (RequestException, ValueError, OSError) as error:
            if isinstance(error, ReadTimeout) or "timed out" in str(error):
                return  # silence
            raise Unavailable(
                f"etcd at {self.endpoint} broke off: {str(error)[:TEXT_MAX]}", hint="is it running?"
            ) from error


def encoded(text: str | bytes) -> str:
    """As etcd takes keys and values in JSON."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return base64.b64encode(raw).decode("ascii")


def decoded(text: str) -> bytes:
    """The bytes of a key or value in etcd's JSON."""
    return base64.b64decode(text)


def _client_of(settings: EtcdSettings, endpoint: str, timeout_s: float) -> Etcd3Client:
    try:
        from etcd3gw.client import Etcd3Client
        from requests import Session
    except ImportError as error:
        raise InvalidRequest(
            "`etcd3gw` is not installed", hint="run `pip install 'gd2fs[etcd]'`"
        ) from error
    session = Session()
    session.trust_env = False  # no proxies, no netrc: only what the settings say
    session.verify = settings.ca or True
    if settings.cert:
        session.cert = (settings.cert, settings.key)
    scheme, _, address = endpoint.partition("://")
    host, port = parse_address(address)
    assert 0 <= port <= PORT_MAX
    return Etcd3Client(
        host=host.strip("[]"),
        port=port,
        protocol=scheme,
        timeout=timeout_s,
        session=session,
        api_path="/v3/",  # since etcd 3.4
    )


def _brief(words: str) -> str:
    """The system's own words, where there are any, without all that they are wrapped in."""
    found = _ERRNO.search(words)
    return found[1] if found else words[:TEXT_MAX]


def _words_of(error: Any) -> str:
    """What etcd said, out of its JSON where it is that."""
    text = str(error.detail_text or error)
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    said = answer.get("message") or answer.get("error") if isinstance(answer, dict) else None
    return str(said or text)


def _is_any(marks: Sequence[str], words: str) -> bool:
    return any(mark in words for mark in marks)
