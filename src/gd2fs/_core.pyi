"""The native half of gd2fs: client, server and placement.

Every method of Client that starts an operation answers its Call at once. The Call keeps the
buffers; one that dies early cancels its operation and waits for its end. ``timeout_ms`` 0 is the
client's default; a ``cookie`` other than 0 announces the end through ``fileno`` and ``finished``,
but ``COOKIE_WAITED`` does not: with it the interpreter's lock stays free for the first 50 ms of the
operation, or until its end, for a caller that waits for it anyway.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gd2fs.buffers import PageSources, PageTargets, Source, Sources, Target, Targets

BATCH_ITEMS_MAX: int
BATCH_BUFFERS_MAX: int
CHUNK_BYTES_DEFAULT: int
CHUNK_BYTES_MIN: int
CHUNK_BYTES_MAX: int
CLUSTER_BYTES_MAX: int
FILE_BYTES_MAX: int
KEY_BYTES_MAX: int
NAMESPACE_BYTES_MAX: int
NODES_MAX: int
NODE_NAME_BYTES_MAX: int
PAGE_BUFFERS_MAX: int
PAGE_BYTES_MAX: int
PATH_BYTES_MAX: int
PORT_DEFAULT: int
REPLICAS_MAX: int
COOKIE_WAITED: int

Key = bytes | str

def path_fault(path: bytes) -> str:
    """What is wrong with this path, or an empty text."""

def namespace_fault(namespace: bytes) -> str:
    """What is wrong with this namespace, or an empty text."""

def key_fault(key: bytes) -> str:
    """What is wrong with this key of a page, or an empty text."""

def node_id(node_name: str) -> bytes:
    """The 16 bytes that placement hashes for a node of this name."""

def is_device_memory(address: int, bytes: int) -> bool:
    """Is all of this memory of a GPU, of a driver that this process has loaded?"""

def interface_addresses() -> list[tuple[str, str]]:
    """Interface and address, of each interface of this machine that is up, but for loopback."""

def placement_order(
    names: Sequence[str], weights: Sequence[int], name: bytes, chunk: int, count: int
) -> list[int]:
    """Indexes of the nodes that hold this chunk of ``name`` (a path, or ``namespace NUL key`` of a
    page), best first."""

def open_ucx(path: str) -> tuple[str, str, bool]:
    """Load a libucp for good, empty: the system's: its path, its version, and whether it was built
    for cards. Raises InvalidRequest, Unavailable."""

class Call:
    """One operation under way, with the memory that it borrows."""

    def wait(self, timeout_ms: int = -1) -> bool:
        """Until done, which gives the buffers back; False when ``timeout_ms`` passed first.

        Under 0 there is no limit. Signals are handled: when a handler raises, the operation is
        cancelled and awaited first.
        """

    def cancel(self) -> None:
        """Ask for an early end: done soon after, as cancelled or as whatever came first."""

    def is_done(self) -> bool: ...
    def progress(self) -> int:
        """Of advice about memory: bytes that are dealt with so far."""

    # The rest is there once it is done; before, they raise InvalidRequest.
    @property
    def status(self) -> int:
        """A ``gd2fs.outcome.Status``."""

    @property
    def message(self) -> str: ...
    @property
    def value(self) -> int:
        """read, write: bytes. append: where. drop, clear: how many. sync_file: as ``kept``."""

    @property
    def statuses(self) -> list[int]:
        """Of each key."""

    @property
    def present(self) -> list[bool]:
        """Of each page: it is there now."""

    @property
    def copies(self) -> list[int]:
        """Of each page that was put: on how many nodes it is now."""

    @property
    def kept(self) -> list[int]:
        """Of each page that was synced: 0 nowhere, 1 memory that is kept, 2 disk."""

    @property
    def sizes(self) -> list[int | None]:
        """Of each page that was got; None where the status is not ok."""

    @property
    def fault(self) -> tuple[int, int, int, int] | None:
        """The first page that was refused: index, status, its bytes there and here."""

    @property
    def entries(self) -> list[tuple[bytes, int]]:
        """Names and sizes of a listing."""

    @property
    def next(self) -> bytes:
        """Where the listing goes on; empty at the end."""

    @property
    def is_partial(self) -> bool: ...
    @property
    def file(self) -> tuple[int, int, int, int, int, int]:
        """size, chunk_bytes, ttl_s, generation, sequence, replicas"""

    @property
    def nodes(
        self,
    ) -> list[tuple[str, int, int, int, str, str, int, int, bool, str, str, int, int, int]]:
        """As ``NodeStatus`` has them."""

    @property
    def replies(self) -> list[tuple[str, int, bytes]]:
        """What nodes said for themselves: name, status, JSON."""

    @property
    def view(self) -> View | None:
        """What a view came to; each read of this makes an object of its own."""

    @property
    def buffer_bytes(self) -> int:
        """Of all buffers together; there from the start."""

class ViewPart:
    """One run of a view's bytes, as a read-only buffer."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class View:
    """Bytes of the cache, read where they lie."""

    def parts(self) -> list[ViewPart]:
        """In order. Raises Closed once the view is released."""

    @property
    def bytes(self) -> int: ...
    @property
    def is_copy(self) -> bool: ...
    @property
    def is_released(self) -> bool: ...
    def release(self) -> None:
        """Twice is fine. Raises BufferError while buffers of it are in use."""

class Client:
    def __init__(
        self,
        seeds: Sequence[str],
        cluster: str,
        *,
        local: Sequence[str] = ...,
        io_threads: int = 2,
        streams: int = 2,
        timeout_ms: int = 5000,
        connect_ms: int = 1000,
        is_verifying: bool = True,
        transport: str = "auto",
        congestion: str = "",
        socket_buffer_bytes: int = ...,
        token: str = "",
        token_file: str = "",
        tls: Mapping[str, object] = ...,
        rdma: Mapping[str, str] = ...,
        devices: Mapping[str, int | bool] = ...,
    ) -> None: ...
    def get_pages(
        self,
        namespace: bytes,
        keys: Sequence[Key],
        into: PageTargets,
        *,
        is_probe: bool = False,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def put_pages(
        self,
        namespace: bytes,
        keys: Sequence[Key],
        values: PageSources,
        *,
        ttl_s: int = 0,
        eviction_class: int = 8,
        tags: bytes = b"",
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def exists(
        self, namespace: bytes, keys: Sequence[Key], *, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def sync_pages(
        self, namespace: bytes, keys: Sequence[Key], *, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def drop_pages(
        self, namespace: bytes, keys: Sequence[Key], *, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def list_pages(
        self,
        namespace: bytes,
        *,
        after: bytes,
        count_max: int,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def create(
        self,
        path: bytes,
        *,
        chunk_bytes: int = 0,
        ttl_s: int = 0,
        replicas: int = 0,
        is_if_absent: bool = False,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def write(
        self,
        path: bytes,
        offset: int,
        buffers: Sources,
        *,
        if_generation: int = 0,
        eviction_class: int = 8,
        tags: bytes = b"",
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def put(
        self,
        path: bytes,
        buffers: Sources,
        *,
        chunk_bytes: int = 0,
        ttl_s: int = 0,
        replicas: int = 0,
        eviction_class: int = 8,
        tags: bytes = b"",
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def append(
        self, path: bytes, buffers: Sources, *, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def read(
        self,
        path: bytes,
        offset: int,
        into: Targets,
        *,
        eviction_class: int = 8,
        tags: bytes = b"",
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def stat(self, path: bytes, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def truncate(self, path: bytes, size: int, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def unlink(self, path: bytes, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def list_files(
        self, prefix: bytes, *, after: bytes, count_max: int, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def view_page(
        self,
        namespace: bytes,
        key: Key,
        *,
        is_verifying: bool = False,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def view_file(
        self,
        path: bytes,
        offset: int,
        length: int,
        *,
        is_verifying: bool = False,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def clear(self, namespace: bytes, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def sync_file(self, path: bytes, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def advise(
        self, path: bytes, is_needed: bool, replicas: int, *, timeout_ms: int = 0, cookie: int = 0
    ) -> Call: ...
    def advise_memory(
        self,
        path: bytes,
        wish: int,
        offset: int,
        length: int,
        *,
        trace: int = 0,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call:
        """``wish``: 0 load, 1 shed, 2 pin, 3 unpin. ``length`` 0: to the end. ``trace``: of 64
        bits; nodes tell it with slow requests."""

    def advise_pages(
        self,
        namespace: bytes,
        keys: Sequence[Key],
        wish: int,
        *,
        trace: int = 0,
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call: ...
    def ping(self, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def drain(self, node_name: bytes, *, timeout_ms: int = 0, cookie: int = 0) -> Call: ...
    def ask_nodes(
        self,
        text: bytes,
        *,
        is_about_settings: bool = False,
        is_page: bool = False,
        only: str = "",
        timeout_ms: int = 0,
        cookie: int = 0,
    ) -> Call:
        """Ask every node, or the one that ``only`` names, about its settings, or what has become of
        a page or a file of this name on the wire."""

    def cluster(self) -> dict[str, Any]:
        """The map: epoch, provider, replicas, namespaces (bytes -> replicas), lease_ms, and nodes
        as (``NAME=ADDR:PORT[+ADDR:PORT...]``, boot, weight, state, left_by)."""

    def counts(self) -> tuple[int, int, int, int, int, int, int, int, int]:
        """As the fields of ``ClientCounts``, in their order."""

    def map(self) -> tuple[int, bytes, list[str]]:
        """epoch, hash of the list of nodes, the nodes as ``NAME=ADDR:PORT[+ADDR:PORT...]``"""

    def register_memory(self, address: int, bytes: int) -> None:
        """Lets nodes reach memory by one-sided transfers, where there are any.

        The caller keeps it mapped until it has been deregistered as often.
        """

    def direct_lack(self, address: int, bytes: int) -> str: ...
    def deregister_memory(self, address: int, bytes: int) -> bool:
        """Returns once nobody reaches it any more; False: it was not registered."""

    def fileno(self) -> int:
        """Readable while a finished announced call waits to be taken. Raises Closed."""

    def finished(self, count_max: int) -> list[int]:
        """Cookies of finished announced calls, oldest first; each is given out once."""

    def close(self) -> None:
        """End all operations and join the client's threads. Twice is fine."""

class Server:
    """One node's arena and streams, served by threads of its own until ``stop``.

    Args:
        cluster: Clients and nodes of another one are refused.
        name: Of this node; one of ``peers``.
        listen: ``ADDR:PORT`` each; port 0 takes a free one.
        peers: All nodes: name, addresses, weight.
        list_hash: 16 bytes that name the list; see ``gd2fs.membership.list_hash``.
        boot: Larger at every start of this node.
        arena: ``auto``, ``hugetlb``, ``memfd``, ``thp``, ``plain`` or ``file:PATH``.
        zero_copy: ``auto``, ``on`` or ``off``: does payload leave the arena by reference?
        hold_silence_ms: A reader that takes nothing of what is held for it for so long is cut
            off; 0 is the default.
        is_shared: Readers of this user on this host may map the arena, where its kind allows it.
        is_traceable: False: this user's debuggers cannot reach the memory of this process, and it
            leaves no core dump. It stays so.
        congestion: How its sockets share the network; empty is cubic, else reno.
        socket_buffer_bytes: Of each direction of a socket.
        provider: Who says who belongs to the cluster: ``static``, ``etcd`` or ``kubernetes``.
        epoch: Of the list in ``peers``.
        replicas: Copies of every namespace that ``namespaces`` does not name, 1 to 8.
        namespaces: Namespaces with a number of their own.
        lease_ms: Of a membership; 0 with a static list.
        members: Further nodes of the first map, as ``apply_map`` takes them.
        is_judged: Offers wait for ``give_verdicts``, for a second at most.
        move_bytes_per_s: What its own moves to other nodes take at most; 0 is the default.
        nvme: Folders for what memory has no room for, and the bytes that each may take.
        nvme_bytes_per_s: What is written there takes at most so much; 0: no limit.
        nvme_write: ``back``: ahead of eviction. ``through``: once it can be read.
        nvme_keep: ``inclusive``: the copy there stays when it is read. ``exclusive``: it goes.
        state_dir: A folder that is there, where records of files are kept for the next process;
            empty: they are kept beside a kept arena, or not at all.
        tokens: What streams have to prove: name, SHA-256 of the secret, ``read``, ``write``,
            ``admin`` or ``cluster``, namespaces (none: all). Without any everybody may do
            everything.
        tls: PEM files ``cert`` and ``key``, ``ca``, a ``name`` (texts), and
            ``are_clients_required``; without any of it TCP is not secured.
        is_spread: Its memory is spread over the machine's NUMA nodes, and so are its threads.
        rdma: ``use`` (``auto``, ``on``, ``off``), the path of a libucp ``library``, and
            ``transports`` as ``UCX_TLS``.

    Raises:
        InvalidRequest: The arena, an address, a certificate or the log of records cannot be had.
    """

    def __init__(
        self,
        cluster: str,
        name: str,
        listen: Sequence[str],
        peers: Sequence[tuple[str, Sequence[str], int]],
        list_hash: bytes,
        boot: int,
        threads: int,
        memory_bytes: int,
        arena: str,
        zero_copy: str = "auto",
        hold_silence_ms: int = 0,
        is_shared: bool = True,
        is_traceable: bool = True,
        congestion: str = "",
        socket_buffer_bytes: int = ...,
        provider: str = "static",
        epoch: int = 1,
        replicas: int = 1,
        namespaces: Sequence[tuple[str, int]] = ...,
        lease_ms: int = 0,
        members: Sequence[tuple[str, Sequence[str], int, int, int, int]] = ...,
        is_judged: bool = False,
        move_bytes_per_s: int = 0,
        nvme: Sequence[tuple[str, int]] = ...,
        nvme_bytes_per_s: int = 0,
        nvme_write: str = "back",
        nvme_keep: str = "inclusive",
        state_dir: str = "",
        tokens: Sequence[tuple[str, bytes, str, Sequence[str]]] = ...,
        tls: Mapping[str, object] = ...,
        is_spread: bool = False,
        rdma: Mapping[str, str] = ...,
    ) -> None: ...
    @property
    def addresses(self) -> list[str]:
        """What was bound, with real ports."""

    @property
    def absent(self) -> list[str]:
        """Of ``listen``, what this machine did not have at the start; served once it has."""

    @property
    def rung(self) -> str:
        """Of the arena: "hugetlb", "memfd", "thp", "plain" or "file"."""

    @property
    def is_sealed(self) -> bool:
        """Readers on this host may map the arena."""

    @property
    def socket_name(self) -> str:
        """Of its abstract Unix socket, without the zero byte in front; empty without one."""

    @property
    def socket_fault(self) -> str:
        """Why it has no Unix socket; empty when it has."""

    @property
    def rdma_lack(self) -> str:
        """Why it takes part in no one-sided transfers; empty when it does."""

    def recovery(self) -> dict[str, str | int | float | bool]:
        """What the former process had left of its arena and of its records, and why not more."""

    def counts(self) -> dict[str, int]:
        """Counters and gauges by name. Raises Closed after ``stop``."""

    def tally(self) -> dict[str, Any]:
        """What is counted in more detail, since the start. Raises Closed after ``stop``.

        - ``bounds_s``: upper bounds of the buckets, in seconds; behind them one more without.
        - ``requests``: op, transport, counts by bucket, seconds that they all took.
        - ``namespaces``: a dict each, the first one (no name) of all that are not told apart:
          ``name``, ``memory_hits``, ``disk_hits``, ``misses`` by reason, ``found`` and ``lacking``
          pages that were asked after, ``read_bytes``, ``written_bytes``.
        - ``transports``: name, bytes of cache in, out.
        - ``evicted``: policy, ``room`` or ``quota``, pieces, bytes of memory.
        - ``departed``: why, pieces, bytes.
        - ``peers``: a dict each: ``name``, ``is_up``, ``requests``, ``failures``, ``sent_bytes``,
          ``answered`` requests and the seconds that these took, ``took_s``.
        """

    def take_slow(self) -> tuple[list[tuple[str, str, int, int]], int]:
        """Requests that took too long since the last call, the oldest first: op, transport,
        microseconds, trace (0: none); how many more there were. Raises Closed after ``stop``."""

    def set_slow(self, limit_ms: int) -> None:
        """From now on, what takes so many milliseconds is slow; a second at first."""

    def curves(self) -> dict[str, Any]:
        """What it would find with more memory or less, of what was asked in the last half hour to
        hour: as ``whatif.curves.NodeCurves`` has it. Raises Closed after ``stop``."""

    def set_curves(self, is_on: bool) -> None:
        """Follow nothing for ``curves``, or everything again: to measure what that costs."""

    def begin_key_trace(self, key: bytes, namespace: str) -> None:
        """Note what is asked from now on, in place of any recording before. ``key``: 16 random
        bytes, by which names become numbers. ``namespace``: only this one; empty: all. Raises
        InvalidRequest for another key, Closed after ``stop``."""

    def take_key_trace(self, entries_max: int) -> tuple[bytes, bool, int]:
        """Whole batches that were noted, of 16 bytes an entry; are there more; and how many keys
        there was no room for since the beginning. A recording ends when nobody takes for 10 s.
        Raises Closed after ``stop``."""

    def is_key_trace_on(self) -> bool:
        """Is what is asked noted now? Raises Closed after ``stop``."""

    def end_key_trace(self) -> None:
        """Note nothing more, and forget what was not taken. Raises Closed after ``stop``."""

    def apply_map(
        self,
        epoch: int,
        nodes: Sequence[tuple[str, Sequence[str], int, int, int, int]],
        *,
        replicas: int = 1,
        namespaces: Sequence[tuple[str, int]] = ...,
        is_gap: bool = False,
    ) -> None:
        """Take the next map, in order: older and equal epochs are ignored.

        Args:
            nodes: name, addresses, weight, boot, state (0 joining, 1 active, 2 draining, 3 gone),
                left_by (1: its lease expired, 2: it was taken out and may not know).
            is_gap: Maps between this one and the last are not known: records are dropped.
        """

    def set_lease(self, until_boottime_ms: int) -> None:
        """Answer about records of files before this time of CLOCK_BOOTTIME; 0: not any more."""

    def reload_tls(self) -> None:
        """Read the files of TLS again now. Raises InvalidRequest when they are no use."""

    def tls_fault(self) -> str:
        """Why changed files of TLS were no use; empty when they were."""

    def set_rules(
        self,
        namespace: str,
        *,
        policy: str = "lru",
        demote: str | None = None,
        keep: str | None = None,
        quota_bytes: int = 0,
        disk_quota_bytes: int = 0,
        ttl_s: int = 0,
        pin_bytes_max: int | None = None,
        eviction_class: int = 3,
    ) -> None:
        """How a namespace is treated from now on; an empty name: all without rules of their own.

        Raises:
            InvalidRequest: A value that does not exist, or too many namespaces have rules.
        """

    def set_tokens(self, tokens: Sequence[tuple[str, bytes, str, Sequence[str]]]) -> None:
        """From now on. Streams of tokens that are gone, or may do something else, are closed."""

    def set_move_rate(self, bytes_per_s: int) -> None:
        """What its own moves to other nodes take at most from now on."""

    def set_nvme_rate(self, bytes_per_s: int) -> None:
        """What is written to its disks takes at most from now on; 0: no limit."""

    def spread(self) -> dict[str, Any]:
        """``bytes`` by NUMA node (none: all in one), ``fault``, ``near_bytes``, ``far_bytes``."""

    def spaces(self) -> list[tuple[bytes, int, int, int, int, int]]:
        """Of each namespace with rules, and first of all others (without a name): bytes in memory,
        pinned and on disk, and the quotas of memory and disk, 0 without one."""

    def departures(
        self, groups_max: int
    ) -> list[tuple[int, int, str, str, bytes, bytes, int, int]]:
        """What the node itself let go lately, the newest first, in groups that lie within 10 s:
        first and last in ms since 1970, cause, policy, namespace, the namespace whose write needed
        the room (empty: none), pieces, bytes."""

    def next_question(self, timeout_ms: int) -> tuple[int, bytes] | None:
        """The next request about settings, by number and text, which waits for ``answer``."""

    def answer(self, number: int, text: bytes) -> None:
        """Answer a request about settings; one that is not open any more is ignored."""

    def next_cases(
        self, timeout_ms: int, count_max: int
    ) -> list[tuple[int, bytes, list[tuple[bytes, bool, int, int, int]]]]:
        """Offers that wait for the site's rule: number, tags, and for each page or piece its name
        on the wire, whether it is a page, bytes, ttl_s (0: none), class (8: its namespace's)."""

    def give_verdicts(
        self, number: int, verdicts: Sequence[tuple[bool, int | None, int | None]]
    ) -> None:
        """What the rule says of an offer, case by case: is it admitted, ttl_s, class; None: as it
        was. Other counts than there were cases: all as it was."""

    def close_desk(self) -> None:
        """Take no more requests about settings, and judge no more offers: ``next_question`` and
        ``next_cases`` return at once from now on."""

    def is_draining_wished(self) -> bool:
        """Has a client asked this node to hand over what it has, and to leave?"""

    def stop(self) -> None:
        """Close all connections and join the threads. Twice is fine."""

# ---- what cases of `gd2fs bench io` are held against -------------------------------------------

def gil_released_ns() -> int:
    """Nanoseconds that this thread's calls have spent without the interpreter's lock.

    What a call takes less what it adds here is how long it kept other threads waiting.
    """

class RawServer:
    """The other end of ceilings: a node's kind of memory and sockets, none of a node's work.

    Args:
        memory_bytes: Sent over and over where more is asked for.
        arena: As for ``Server``.

    Raises:
        InvalidRequest: The arena cannot be had.
    """

    def __init__(self, memory_bytes: int, arena: str) -> None: ...
    @property
    def tcp(self) -> str:
        """Where a RawLine connects to; ``unix`` too."""

    @property
    def unix(self) -> str: ...
    @property
    def bare_tcp(self) -> str:
        """Where a BareLine connects to; ``bare_unix`` too."""

    @property
    def bare_unix(self) -> str: ...
    @property
    def rung(self) -> str: ...
    @property
    def can_vmsplice(self) -> bool:
        """Whether this memory can be lent to a socket, tried at the start."""

class RawLine:
    """Bulk transfers from and to a RawServer, over ``streams`` connections. One call at a time.

    Its methods raise Unavailable when the server is gone.
    """

    def __init__(self, address: str, streams: int) -> None: ...
    def read(self, into: Target, *, is_spliced: bool) -> None:
        """Fill ``into`` with the server's memory, sent by splice or by send."""

    def write(self, source: Source) -> None:
        """Send all of ``source``; returns when the server has it."""

class BareLine:
    """Small requests to the bare loop of a RawServer. One call at a time; raises as RawLine."""

    def __init__(self, address: str) -> None: ...
    def fill(self, keys: Source, *, count: int, item_bytes: int) -> None:
        """Make items of ``count`` keys of equal length, which lie back to back in ``keys``."""

    def get(self, into: Target, *, batches: int, depth: int, is_verifying: bool) -> None:
        """Get all items ``batches`` times, ``depth`` frames in flight.

        Args:
            into: ``depth`` times as long as all items.
        """

    def exists(self, *, batches: int) -> None:
        """Ask for all keys ``batches`` times, one frame in flight."""

class Copier:
    """Copies out of its own memory, of a node's kind, on ``threads`` threads."""

    def __init__(self, memory_bytes: int, arena: str, threads: int) -> None: ...
    @property
    def rung(self) -> str: ...
    def copy(self, into: Target, *, is_nontemporal: bool) -> None:
        """Fill all of ``into``, through the cache or past it."""

def seal_rate(cipher: str, seconds: float) -> float:
    """Bytes a second that this thread seals into records of 16 KiB with an AEAD of OpenSSL's.

    Raises:
        Unavailable: OpenSSL has no such cipher.
    """

class DiskReader:
    """The disk tier's engine alone: records of one size, written once and flushed.

    Args:
        folder: Made when it is not there; the log in it stays.
        bytes: Of all records.
        record_bytes: Of one.
        depth: Reads in flight.
        io: ``auto``, ``uring`` or ``threads``.
        arena: As for ``Server``; one record for each read in flight.

    Raises:
        InvalidRequest: The folder or the way of I/O cannot be had.
        Unavailable: Writing failed.
    """

    def __init__(
        self, folder: str, *, bytes: int, record_bytes: int, depth: int, io: str, arena: str
    ) -> None: ...
    def read(self, seconds: float, *, is_verifying: bool) -> float:
        """Read in random order for so long; bytes per second. Raises Unavailable when one fails."""

    def scan(self) -> tuple[int, int, int]:
        """Close and open the log again: records, bytes of the log, milliseconds."""

    @property
    def written_bytes_per_s(self) -> float: ...
    @property
    def is_uring(self) -> bool: ...
    @property
    def is_direct(self) -> bool: ...

SIM_INSTANCES_MAX: int

def miss_curve(
    arrays: dict[str, Any], sizes: Sequence[float], samples_max: int, seed: int
) -> tuple[list[float], float]:
    """Shares of a trace's blocks that LRU caches of these sizes find, and the share followed.

    ``arrays`` as for ``Simulation``; sizes are blocks; at most ``samples_max`` blocks are followed.
    """

class Simulation:
    """A trace that is played to a fleet, see ``gd2fs.sim``.

    ``options`` are those of ``gd2fs.sim.fleet.Fleet.for_core``, ``arrays`` those of
    ``gd2fs.sim.trace.Trace.arrays``, which have to stay as they are. What does not fit raises
    InvalidRequest.
    """

    def __init__(self, options: dict[str, Any], arrays: dict[str, Any]) -> None: ...
    def run(self, requests: int) -> bool:
        """Go on, without the interpreter's lock, until so many more are answered. True: all are."""

    answered: int

    def counts(self) -> dict[str, Any]:
        """Sums over everything: blocks, tokens, seconds."""

    def links(self) -> list[tuple[str, int, float, float]]:
        """Kind, index, bytes in and out; of ``evicted``: blocks from memory and from disk."""

    def gaps(self, shares: Sequence[float]) -> dict[str, Any]:
        """Seconds between two tokens of an answer: ``mean``, ``max``, ``quantiles``."""

    def bins(self) -> list[tuple[float, float, float, float, float, float]]:
        """Over time: requests, asked blocks, found blocks, sum of first tokens, answered, busy."""

    def first_token_s(self) -> bytes:
        """Of each request: 32-bit floats; empty with instant engines."""

    def done_s(self) -> bytes:
        """Likewise, of the last token."""

    def found_blocks(self) -> bytes:
        """Of each request: 32-bit numbers."""

    def instance_of(self) -> bytes:
        """Of each request: 16-bit numbers."""

    @staticmethod
    def key_of(block: int) -> bytes:
        """The key of the page that stands for a block."""
