"""Client: files and pages on all nodes of a cluster, for threads and for event loops alike."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from gd2fs import _core
from gd2fs.address import absent_dp
from gd2fs.advice import SEQUENTIAL, Advised, check_range, wish_of
from gd2fs.answers import (
    ClientCounts,
    ClusterStatus,
    FileStat,
    Listing,
    NodeReply,
    NodeStatus,
    cluster_status,
    node_status,
)
from gd2fs.argument import name_bytes
from gd2fs.asking import ask_settings, no_such_node, why
from gd2fs.completion import Completions, Deadline, Steps, run
from gd2fs.config import ClientConfig, check_timeout, client_config, tls_of
from gd2fs.errors import Unavailable
from gd2fs.files import FileSteps
from gd2fs.fork import NativeClient, abandon, close_in_children, leak
from gd2fs.marks import NONE, Marks
from gd2fs.outcome import Status, check
from gd2fs.pages import Key, Pages
from gd2fs.registered import RegisteredMemory
from gd2fs.tokens import Token
from gd2fs.view import View, view_file, view_page

if TYPE_CHECKING:
    from gd2fs.buffers import Sources, Target, Targets

T = TypeVar("T")

log = logging.getLogger(__name__)


class Client:
    """A connection to a cluster. Thread-safe; a context manager; Closed in a forked child.

    Paths are absolute, ``/namespace/name...``, 1 to 1,024 bytes, without ``.`` and ``..``. Every
    call has a deadline, ``timeout_s`` or the client's. Methods with an ``a`` in front do the same
    with await, on any running loop and without a thread; a cancelled await ends its call first.

    Args:
        cp: Nodes to ask first: ``gd2fs://HOST:7527,HOST2:7527``; scheme and port may be left out.
            Default: ``GD2FS_CPADDR``.
        cluster: Name of the cluster. Default: ``GD2FS_CLUSTER``.
        dp: The client's own addresses, ``tcp://LOCAL_IP,...``, all used at once. One that this
            machine does not have now is used once it has. ``rdma://LOCAL_IP,...`` asks for RDMA.
            Default: ``GD2FS_DPADDR``, else the system's choice.
        device: A GPU that its bytes are for: an index, a PCI address or a UUID. Where ``dp`` names
            no address, those of its nearest NICs are used. Default: ``GD2FS_DEVICE``.
        device_nics: How many of them; 0: all, as without a device. Default: ``GD2FS_DEVICE_NICS``.
        io_threads: Threads that move bytes, 1 to 64.
        streams: Connections to each node, 1 to 64; at least one for each address of ``dp``.
        timeout_s: Deadline of a call that names none.
        verify: Sum every block here: of a read it is checked in the caller's memory, of a write the
            sum goes with it. Without, nodes sum what arrives, and reads stand on their word.
        transport: ``auto``: to a node of this host over its Unix socket, with shared memory when
            the node runs as this user and its memory is of a kind that can be shared; else TCP,
            and where both sides have cards what is registered moves by RDMA. ``shm``, ``rdma``,
            ``unix``, ``tcp``: just that. Default: ``GD2FS_TRANSPORT``, else ``auto``.
        ucx: Path of a libucp, for RDMA. Default: ``GD2FS_UCX``, else what ``gd2fs.ucx`` finds.
        ucx_tls: Which of UCX's transports, as ``UCX_TLS``. Default: ``GD2FS_UCX_TLS``, else all
            but those within a host.
        congestion: How sockets share the network, by the kernel's name. Default:
            ``GD2FS_CONGESTION``, else cubic or reno.
        socket_buffer: Bytes of a socket's buffer each way, 64 KiB to 256 MiB, a number or ``1MiB``.
            Default: ``GD2FS_SOCKET_BUFFER``, else 1 MiB.
        bounce_size: Pinned memory that bytes of GPUs pass through, 1 MiB to 64 GiB; made for the
            first of them. Default: ``GD2FS_BOUNCE_SIZE``, else 128 MiB.
        token: What it shows to nodes, ``NAME.SECRET``; empty: nothing. Default: ``GD2FS_TOKEN``.
        token_file: Instead of it, a file whose first token is shown; read again whenever it has
            changed. Default: ``GD2FS_TOKEN_FILE``, which goes before ``GD2FS_TOKEN``.
        tls_ca: Turns TLS on for TCP: the PEM file of who signs the nodes' certificates, or
            ``system``. Default: ``GD2FS_TLS_CA``, else no TLS.
        tls_cert, tls_key: The client's own certificate, for nodes that want one. Default:
            ``GD2FS_TLS_CERT``, ``GD2FS_TLS_KEY``.
        tls_name: One more name that nodes' certificates may have, where they have none of the
            addresses and names in the map. Default: ``GD2FS_TLS_NAME``.

    Raises:
        InvalidRequest: A setting is wrong or missing, the node is of another cluster, or does not
            know the token.
        Unavailable: No node could be reached.
    """

    def __init__(
        self,
        cp: str | Sequence[str] | None = None,
        *,
        cluster: str | None = None,
        dp: str | Sequence[str] | None = None,
        device: int | str | None = None,
        device_nics: int | None = None,
        io_threads: int | None = None,
        streams: int | None = None,
        timeout_s: float | None = None,
        verify: bool = True,
        transport: str | None = None,
        ucx: str | None = None,
        ucx_tls: str | None = None,
        congestion: str | None = None,
        socket_buffer: int | str | None = None,
        bounce_size: int | str | None = None,
        token: Token | str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        tls_name: str | None = None,
    ) -> None:
        self._open(
            client_config(
                cp,
                cluster=cluster,
                dp=dp,
                device=device,
                device_nics=device_nics,
                io_threads=io_threads,
                streams=streams,
                timeout_s=timeout_s,
                verify=verify,
                transport=transport,
                ucx=ucx,
                ucx_tls=ucx_tls,
                congestion=congestion,
                socket_buffer=socket_buffer,
                bounce_size=bounce_size,
                token=token,
                token_file=token_file,
                tls=tls_of(tls_cert, tls_key, tls_ca, tls_name),
            )
        )

    @classmethod
    def of(cls, config: ClientConfig) -> Client:
        """The client that ``config`` says, whatever the environment does. Raises as the class."""
        client = cls.__new__(cls)
        client._open(config)
        return client

    def _open(self, config: ClientConfig) -> None:
        self.config = config
        self._core = connect(config)
        self._files = FileSteps(self._core)
        self._registered = self._no_memory()
        self._lock = threading.Lock()  # Guards: _completions, made at the first await.
        self._completions: Completions | None = None
        close_in_children(self)

    def __repr__(self) -> str:
        return f"<Client of {self.config.cluster!r} at {', '.join(self.config.cp)}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- files -----------------------------------------------------------------------------

    def create(
        self,
        path: str,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        if_absent: bool = False,
        timeout_s: float | None = None,
    ) -> FileStat:
        """Make an empty file; what is there already stays as it is.

        Args:
            path: Of the file.
            chunk_bytes: Cut it at multiples of this, itself a multiple of 64 KiB, up to 1 GiB.
                Default: 4 MiB.
            ttl_s: Seconds until it goes by itself.
            replicas: Copies of its bytes, 1 to 8, on as many nodes. Default: as its namespace has.
            if_absent: Refuse when it is there.

        Raises:
            InvalidRequest: The path or a number is not valid; or it is there, with ``if_absent``.
            Unavailable: Its home did not answer in time. It may have been made.
        """
        deadline = self._deadline(timeout_s)
        return self._run(
            self._files.create(path, chunk_bytes, ttl_s, if_absent, deadline, replicas)
        )

    async def acreate(
        self,
        path: str,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        if_absent: bool = False,
        timeout_s: float | None = None,
    ) -> FileStat:
        """As ``create``."""
        deadline = self._deadline(timeout_s)
        return await self._arun(
            self._files.create(path, chunk_bytes, ttl_s, if_absent, deadline, replicas)
        )

    def write(
        self,
        path: str,
        offset: int,
        buffers: Sources,
        *,
        if_generation: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """Write one contiguous range, from one buffer or several in order; its bytes.

        Atomic: readers see all of it or nothing, but where it spans chunks a reader may see a part
        until it is acknowledged. A range between the old end and ``offset`` reads as zeros.

        Args:
            path: Of a file that exists.
            offset: Where in the file.
            buffers: Borrowed for the call only. They must not change meanwhile.
            if_generation: Only into this file, not into one that took its path since.
            marks: What is said about these bytes to those who choose what stays.

        Raises:
            InvalidRequest: No such file, a bad path, or more bytes than an arena can take.
            Unavailable: Not stored in time, or not known. Old and new bytes are never mixed.
            Corrupt: The bytes were damaged on their way. Nothing was stored.
        """
        deadline = self._deadline(timeout_s)
        return self._run(self._files.write(path, offset, buffers, deadline, if_generation, marks))

    async def awrite(
        self,
        path: str,
        offset: int,
        buffers: Sources,
        *,
        if_generation: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """As ``write``. The buffers are borrowed until the await ends, however it ends."""
        deadline = self._deadline(timeout_s)
        return await self._arun(
            self._files.write(path, offset, buffers, deadline, if_generation, marks)
        )

    def append(
        self,
        path: str,
        buffers: Sources,
        *,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """Write at the end, wherever that is by then; the offset where the bytes were put.

        Raises:
            InvalidRequest, Unavailable, Corrupt: As for ``write``.
        """
        return self._run(self._files.append(path, buffers, self._deadline(timeout_s), marks))

    async def aappend(
        self,
        path: str,
        buffers: Sources,
        *,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """As ``append``. The buffers are borrowed until the await ends, however it ends."""
        return await self._arun(self._files.append(path, buffers, self._deadline(timeout_s), marks))

    def read(
        self, path: str, offset: int, into: Targets, *, timeout_s: float | None = None
    ) -> int | None:
        """Read one contiguous range into one buffer, or into several in order.

        Args:
            path: Of the file.
            offset: Where in the file.
            into: Writable, without overlaps. Borrowed for the call only.

        Returns:
            Bytes read, fewer than asked for at the end of the file. None is a miss: no such file,
            or some of these bytes are gone; then the buffers' content means nothing.

        Raises:
            InvalidRequest: A bad path or buffer.
            Unavailable: A node did not answer in time. Treat it as a miss.
        """
        return self._run(self._files.read(path, offset, into, self._deadline(timeout_s)))

    async def aread(
        self, path: str, offset: int, into: Targets, *, timeout_s: float | None = None
    ) -> int | None:
        """As ``read``. The buffers are borrowed until the await ends, however it ends."""
        deadline = self._deadline(timeout_s)
        return await self._arun(self._files.read(path, offset, into, deadline))

    def put(
        self,
        path: str,
        buffers: Sources,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """Make ``buffers`` the whole content of the file, whatever was there; its bytes.

        All at once: readers get the old content or the new one, or a miss. When it fails, the old
        content stays.

        Raises:
            InvalidRequest: A bad path or buffer, or more bytes than the nodes can hold.
            Unavailable: A node did not answer in time. Retry; whether it was done is not known.
            Corrupt: The bytes changed on their way, twice. Nothing was stored.
        """
        deadline = self._deadline(timeout_s)
        return self._run(
            self._files.put(path, buffers, chunk_bytes, ttl_s, deadline, replicas, marks)
        )

    async def aput(
        self,
        path: str,
        buffers: Sources,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> int:
        """As ``put``. The buffers are borrowed until the await ends, however it ends."""
        deadline = self._deadline(timeout_s)
        return await self._arun(
            self._files.put(path, buffers, chunk_bytes, ttl_s, deadline, replicas, marks)
        )

    def get(self, path: str, *, timeout_s: float | None = None) -> bytearray | None:
        """The whole content of the file at one moment, or None: a miss.

        Raises:
            InvalidRequest: A bad path; or it is more than 64 GiB, or than this machine has free
                memory for. Read such a file in ranges.
            Unavailable: A node did not answer in time. Treat it as a miss.
        """
        return self._run(self._files.get(path, self._deadline(timeout_s)))

    async def aget(self, path: str, *, timeout_s: float | None = None) -> bytearray | None:
        """As ``get``."""
        return await self._arun(self._files.get(path, self._deadline(timeout_s)))

    def stat(self, path: str, *, timeout_s: float | None = None) -> FileStat | None:
        """What the file is now; None when there is no such file. Raises as ``get`` does."""
        return self._run(self._files.stat(path, self._deadline(timeout_s)))

    async def astat(self, path: str, *, timeout_s: float | None = None) -> FileStat | None:
        """As ``stat``."""
        return await self._arun(self._files.stat(path, self._deadline(timeout_s)))

    def truncate(self, path: str, size: int, *, timeout_s: float | None = None) -> None:
        """Cut the file down to ``size`` bytes.

        Raises:
            InvalidRequest: No such file, or it is shorter than that.
            Unavailable: Its home did not answer in time. It may have been cut.
        """
        self._run(self._files.truncate(path, size, self._deadline(timeout_s)))

    async def atruncate(self, path: str, size: int, *, timeout_s: float | None = None) -> None:
        """As ``truncate``."""
        await self._arun(self._files.truncate(path, size, self._deadline(timeout_s)))

    def unlink(self, path: str, *, timeout_s: float | None = None) -> bool:
        """Forget the file; whether there was one.

        Raises:
            InvalidRequest: A bad path.
            Unavailable: Its home did not answer in time. It may be gone.
        """
        return self._run(self._files.unlink(path, self._deadline(timeout_s)))

    async def aunlink(self, path: str, *, timeout_s: float | None = None) -> bool:
        """As ``unlink``."""
        return await self._arun(self._files.unlink(path, self._deadline(timeout_s)))

    def sync(self, paths: Sequence[str], *, timeout_s: float | None = None) -> list[str]:
        """Bring files to where they outlive the processes of their nodes; of each where that is.

        One after the other. ``Pages.sync`` does it with pages.

        Returns:
            For each path ``disk``: all of it outlives the machine; ``memory``: a kept arena, it
            outlives the nodes' processes, not their machines; or an empty string: it is not there,
            not all of it, or its nodes keep nothing.

        Raises:
            InvalidRequest: A bad path.
            Unavailable: A node or its disk did not answer in time, so it is not known.
        """
        deadline = self._deadline(timeout_s)
        return [self._run(self._files.sync(path, deadline)) for path in paths]

    async def async_(self, paths: Sequence[str], *, timeout_s: float | None = None) -> list[str]:
        """As ``sync``."""
        deadline = self._deadline(timeout_s)
        return [await self._arun(self._files.sync(path, deadline)) for path in paths]

    def advise(
        self,
        path: str,
        advice: str,
        *,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int | None:
        """Say what is expected of the file; how many bytes that moved.

        Args:
            path: Of the file.
            advice: ``willneed``: it will be read much. Its bytes lie in ``replicas`` copies when
                the call returns, and readers choose among them. ``dontneed``: not any more.
                ``replicas`` copies are kept, and what lies beyond is dropped.
            replicas: 1 to 8. Default: as its namespace has.

        Returns:
            Bytes that lie in so many copies now; with ``dontneed`` bytes that were dropped. None
            is a miss: no such file, or some of its bytes are gone.

        Raises:
            InvalidRequest: A bad path or number; or the nodes have no room for so many copies.
            Unavailable: A node did not answer in time. Some copies may have been made.
        """
        deadline = self._deadline(timeout_s)
        return self._run(self._files.advise(path, advice, replicas, deadline))

    async def aadvise(
        self,
        path: str,
        advice: str,
        *,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int | None:
        """As ``advise``."""
        deadline = self._deadline(timeout_s)
        return await self._arun(self._files.advise(path, advice, replicas, deadline))

    def fadvise(
        self,
        paths: str | Sequence[str],
        advice: str,
        *,
        offset: int = 0,
        length: int = 0,
        timeout_s: float | None = None,
        trace: int = 0,
    ) -> Advised:
        """Say which bytes of files shall be in the memory of their nodes, all owners at once.

        Args:
            paths: One or several.
            advice: ``willneed``: load the range from disk. ``dontneed``: take its whole blocks of
                64 KiB out of memory; bytes that shall be on disk are written first, and without a
                disk they are lost. ``pin``: load it, and keep it there whatever room is needed for.
                ``unpin``: treat it as everything else. ``sequential``: whatever this client reads
                of the file from now on, load what follows.
            offset: Where the range begins.
            length: Its bytes; 0: to the end of the file.
            timeout_s: Deadline of the whole.
            trace: What it belongs to, the low 64 bits of a W3C trace id: nodes that take long for
                it tell that with it. 0: nothing.

        Returns:
            What is under way: ``wait`` for it, look at its progress, or cancel it. Keep it for as
            long as it shall go on.

        Raises:
            InvalidRequest: A bad path, range or advice.
        """
        names = [paths] if isinstance(paths, str) else list(paths)
        raw = [name_bytes(name) for name in names]
        check_range(offset, length)
        if advice == SEQUENTIAL:
            for path in raw:
                self._files.readahead.add(path)
            return Advised(advice, names, [])
        wish = wish_of(advice)
        timeout_ms = self._deadline(timeout_s).left_ms()
        calls = [
            self._core.advise_memory(path, wish, offset, length, trace=trace, timeout_ms=timeout_ms)
            for path in raw
        ]
        return Advised(advice, names, calls)

    def list(
        self, prefix: str, *, after: str = "", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[str]:
        """Paths that start with ``prefix``, after ``after``, in byte order, with their sizes.

        Raises:
            InvalidRequest: The prefix is not valid, or ``limit`` is not 1 to 65,536.
            Unavailable: No node answered in time.
        """
        return self._run(self._files.list(prefix, after, limit, self._deadline(timeout_s)))

    async def alist(
        self, prefix: str, *, after: str = "", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[str]:
        """As ``list``."""
        deadline = self._deadline(timeout_s)
        return await self._arun(self._files.list(prefix, after, limit, deadline))

    # ---- views -----------------------------------------------------------------------------

    def view(
        self, namespace: str, key: Key, *, verify: bool = False, timeout_s: float | None = None
    ) -> View | None:
        """Look at a page where it lies, without a copy; None is a miss.

        Over shared memory the node keeps the page in place until the view is released. Elsewhere,
        or when this process looks at more than a 16th of the node's memory, it is a copy.

        Args:
            namespace: Of the page.
            key: Of the page.
            verify: Check every block against its checksum first, which reads all of it.

        Raises:
            InvalidRequest: The name is not valid.
            Unavailable: No node answered in time. Treat it as a miss.
        """
        deadline = self._deadline(timeout_s)
        return self._run(view_page(self._core, namespace, key, verify, deadline))

    async def aview(
        self, namespace: str, key: Key, *, verify: bool = False, timeout_s: float | None = None
    ) -> View | None:
        """As ``view``."""
        deadline = self._deadline(timeout_s)
        return await self._arun(view_page(self._core, namespace, key, verify, deadline))

    def view_file(
        self,
        path: str,
        offset: int = 0,
        size: int | None = None,
        *,
        verify: bool = False,
        timeout_s: float | None = None,
    ) -> View | None:
        """As ``view``, of ``size`` bytes of a file or of all to its end; fewer at its end.

        None is a miss: no such file, or some of these bytes are gone. Later writes to the file do
        not show in it. Raises as ``view`` does.
        """
        deadline = self._deadline(timeout_s)
        return self._run(view_file(self._core, path, offset, size, verify, deadline))

    async def aview_file(
        self,
        path: str,
        offset: int = 0,
        size: int | None = None,
        *,
        verify: bool = False,
        timeout_s: float | None = None,
    ) -> View | None:
        """As ``view_file``."""
        deadline = self._deadline(timeout_s)
        return await self._arun(view_file(self._core, path, offset, size, verify, deadline))

    # ---- memory ----------------------------------------------------------------------------

    def register(self, buffer: Target) -> None:
        """Let nodes reach this memory by RDMA, where there is any, until it is deregistered.

        For pools that live long: it pins the memory, which takes its time. With ``auto`` nothing
        else moves by RDMA; with ``rdma`` other memory is registered for each call. Without RDMA
        this does nothing, and where it fails with ``auto``, bytes go through the streams as ever.
        Memory of a GPU is reached straight from here on where cards do that; what they do not
        reach bounces, and the log says why once.

        Args:
            buffer: Contiguous and writable, and kept by the client meanwhile; or ``(address,
                length)``, which the caller keeps mapped. Parts of it may be given to calls.

        Raises:
            InvalidRequest: It is empty, or not such memory.
            Unavailable: With ``rdma``: it cannot be registered; see `ulimit -l`.
        """
        self._registered.add(buffer)

    def deregister(self, buffer: Target) -> bool:
        """Take it back, as often as it was registered; False: it was not.

        Returns once nobody reaches it any more: when calls on it have ended, or a second after
        their deadlines at the latest.
        """
        return self._registered.drop(buffer)

    # ---- everything else -------------------------------------------------------------------

    def pages(self, namespace: str) -> Pages:
        """The pages of one namespace, 1 to 255 bytes without ``/``."""
        return Pages(self, namespace)

    def clear(self, namespace: str, *, timeout_s: float | None = None) -> int:
        """Forget all files and pages of a namespace; how many there were.

        Raises:
            InvalidRequest: The namespace is not valid.
            Unavailable: Not every node answered in time; the message says how many the others
                forgot. Clear again when it is back.
        """
        return self._run(self._clear(namespace, self._deadline(timeout_s)))

    def ping(self, *, timeout_s: float | None = None) -> Sequence[NodeStatus]:
        """How every node of the map is; one that does not answer in time is ``gone``."""
        return self._run(self._ping(self._deadline(timeout_s)))

    def drain(self, node: str, *, timeout_s: float | None = None) -> None:
        """Ask a node to hand over what it has, and then to leave. It has only begun on return.

        Raises:
            InvalidRequest: There is no such node, or its cluster is a static list.
            Unavailable: The node did not answer in time.
        """
        self._run(self._drain(node, self._deadline(timeout_s)))

    def why(
        self,
        path: str | None = None,
        *,
        page: tuple[str, Key] | None = None,
        timeout_s: float | None = None,
    ) -> Sequence[NodeReply]:
        """Ask every node what it has of a file or a page, and what went of it lately.

        Args:
            path: Of a file; or else
            page: Namespace and key of a page.
            timeout_s: Nodes that are silent for so long have said nothing.

        Raises:
            InvalidRequest: That can be the name of neither.
        """
        return self._run(why(self._core, path, page, self._deadline(timeout_s)))

    def settings(
        self, request: Mapping[str, object], *, node: str = "", timeout_s: float | None = None
    ) -> Sequence[NodeReply]:
        """Ask every node, or one by its name, about its settings.

        Args:
            request: ``{"do": "show"}``, or ``{"do": "set", "key": KEY, "value": VALUE}``.
            node: Only this one.
            timeout_s: Nodes that are silent for so long have said nothing.

        Returns:
            For each node ``{"settings": ...}``, or ``{"error": ..., "hint": ...}``.

        Raises:
            InvalidRequest: There is no such node, or the request is over 1,024 bytes.
        """
        return self._run(ask_settings(self._core, request, node, self._deadline(timeout_s)))

    def cluster(self) -> ClusterStatus:
        """The map of nodes that this client goes by now."""
        return cluster_status(self._core.cluster())

    def counts(self) -> ClientCounts:
        """What this client has done since it began."""
        return ClientCounts(*self._core.counts())

    def fileno(self) -> int:
        """The descriptor that is readable while a finished await waits to be taken."""
        return self._core.fileno()

    def close(self) -> None:
        """End all calls under way, which raise Closed, and the client's threads. Twice is fine."""
        self._core.close()
        with self._lock:
            completions, self._completions = self._completions, None
        if completions:
            completions.close()
        self._registered.clear()

    def forget_parent(self) -> None:
        """In a forked child: every call raises Closed from now on, and ``close`` does nothing."""
        abandon(self._core)
        leak(self._completions)
        self._completions = None
        self._lock = threading.Lock()  # a thread of the parent may have held the old one
        self._registered = self._no_memory()

    def _no_memory(self) -> RegisteredMemory:
        return RegisteredMemory(self._core, is_wanted=self.config.transport == "rdma")

    def _clear(self, namespace: str, deadline: Deadline) -> Steps[int]:
        call = yield partial(self._core.clear, name_bytes(namespace), timeout_ms=deadline.left_ms())
        check(call, f"clear namespace {namespace}")
        if call.is_partial:
            raise Unavailable(
                f"clear namespace {namespace}: {call.value} forgotten, "
                "but not every node answered, so some may be left",
                hint="clear it again when all nodes are back: `gd2fs status` names them",
            )
        return call.value

    def _ping(self, deadline: Deadline) -> Steps[Sequence[NodeStatus]]:
        call = yield partial(self._core.ping, timeout_ms=deadline.left_ms())
        check(call, "ping")
        return [node_status(*node) for node in call.nodes]

    def _drain(self, node: str, deadline: Deadline) -> Steps[None]:
        name = name_bytes(node)
        call = yield partial(self._core.drain, name, timeout_ms=deadline.left_ms())
        if Status(call.status) is Status.GONE:
            raise no_such_node(cluster_status(self._core.cluster()), node)
        check(call, f"drain node {node}")

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return Deadline(self.config.timeout_s if timeout_s is None else check_timeout(timeout_s))

    def _run(self, steps: Steps[T]) -> T:
        return run(steps)

    async def _arun(self, steps: Steps[T]) -> T:
        with self._lock:
            if self._completions is None:
                self._completions = Completions(self._core)
            completions = self._completions
        return await completions.run(steps)


def connect(config: ClientConfig) -> _core.Client:
    """The native client for ``config``. Raises InvalidRequest or Unavailable."""
    absent = absent_dp(config.dp)
    if absent and len(absent) < len(config.dp):  # with none of them the native client refuses
        log.warning("going on without %s: it is used once it is there", " and ".join(absent))
    return NativeClient(
        list(config.cp),
        config.cluster,
        local=list(config.dp),
        io_threads=config.io_threads,
        streams=config.streams,
        timeout_ms=max(1, round(config.timeout_s * 1e3)),
        is_verifying=config.verify,
        transport=config.transport,
        congestion=config.congestion,
        socket_buffer_bytes=config.socket_buffer_bytes,
        devices=config.devices.native(),
        rdma=config.rdma,
        **config.access.native(),
    )
