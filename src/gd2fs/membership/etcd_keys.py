"""EtcdKeys: what is read and written of one cluster in etcd, under `/gd2fs/CLUSTER/`.

Every put rewrites the key `changes` in the same transaction, so that a listing of all keys shows
that something was put and taken away again in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.etcd_link import EtcdLink, decoded, encoded
from gd2fs.membership.follower import Compacted
from gd2fs.membership.rules import Beat, Listing, may_end_early
from gd2fs.membership.state import (
    CHANGES,
    NODES,
    SETTINGS,
    ClusterState,
    Delete,
    Event,
    LeftBy,
    Member,
    Put,
    Settings,
    state_of,
    write_member,
    write_settings,
)

ROOT = "/gd2fs/"


class EtcdKeys:
    """The keys of ``cluster``, through one link. Raises as ``EtcdLink.call``."""

    def __init__(self, link: EtcdLink, cluster: str) -> None:
        self.link = link
        self.prefix = f"{ROOT}{quote(cluster, safe='')}/"
        self._range_end = self.prefix[:-1] + "0"  # the byte after `/`

    @property
    def place(self) -> str:
        """Where they are, for messages."""
        return self.prefix

    # ---- leases --------------------------------------------------------------------------------

    def grant(self, ttl_s: int) -> tuple[int, int]:
        """A new lease: its number, and the seconds that it got, which may be more."""
        answer = self.link.call("/lease/grant", {"TTL": ttl_s, "ID": 0})
        return int(answer["ID"]), int(answer["TTL"])

    def keep_alive(self, lease: int) -> Beat:
        """Make the lease last for its whole time from now on."""
        answer = self.link.call("/lease/keepalive", {"ID": lease})["result"]
        return Beat(int(answer.get("TTL", 0)), _term(answer))

    def lease_ttl_s(self, lease: int) -> int:
        """What it has to live; 0 when there is no such lease, or it is over."""
        answer = self.link.call("/lease/timetolive", {"ID": lease})
        return max(0, int(answer.get("TTL", 0)))

    def may_end_early(self) -> bool:
        """Whether this etcd may end a lease before its time. What it does not say counts as yes."""
        try:
            version = self.link.call("/maintenance/status", {})["version"]
            members = self.link.call("/cluster/member/list", {})["members"]
        except (InvalidRequest, KeyError):
            return True
        return may_end_early(str(version), members=len(members))

    def revoke(self, lease: int) -> None:
        """End it, and its keys with it."""
        self.link.call("/lease/revoke", {"ID": lease})

    # ---- reading -------------------------------------------------------------------------------

    def snapshot(self, revision: int = 0) -> ClusterState:
        """All keys, as of now or as of ``revision``, where an event of the map was."""
        body = {"key": encoded(self.prefix), "range_end": encoded(self._range_end)}
        answer = self.link.call("/kv/range", body | ({"revision": revision} if revision else {}))
        puts = [self._put_of(pair) for pair in answer.get("kvs", [])]
        at = revision or int(answer["header"]["revision"])
        return state_of(puts, revision=at, epoch=revision or None)

    def listing(self, applied_revision: int) -> Listing:
        """The revisions of all keys. It asks a majority of etcd's members."""
        body = {"key": encoded(self.prefix), "range_end": encoded(self._range_end)}
        answer = self.link.call("/kv/range", body | {"keys_only": True})
        revisions = {
            self._name(pair["key"]): int(pair["mod_revision"]) for pair in answer.get("kvs", [])
        }
        revision = int(answer["header"]["revision"])
        return Listing(revision, revisions, _term(answer), applied_revision)

    def watch(self, first_revision: int, silence_s: float) -> Iterator[list[dict[str, Any]]]:
        """Events from ``first_revision`` on, those of one revision together; ends after a silence.

        Raises:
            Compacted: etcd does not have them any more.
        """
        create = {
            "key": encoded(self.prefix),
            "range_end": encoded(self._range_end),
            "start_revision": first_revision,
        }
        with self.link.stream("/watch", {"create_request": create}, silence_s) as answers:
            for answer in answers:
                yield from self._batches(answer)

    def _batches(self, answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        result = answer.get("result")
        if result is None:
            raise Unavailable(
                f"etcd ended a watch: {answer.get('error')}", hint="it is tried again"
            )
        if int(result.get("compact_revision", 0)):
            raise Compacted
        if result.get("canceled"):
            self.link.forget_token()  # it may be that which was refused
            reason = result.get("cancel_reason", "no reason given")
            raise Unavailable(f"etcd ended a watch: {reason}", hint="it is tried again")
        for _, events in groupby(
            result.get("events", []), lambda event: int(event["kv"]["mod_revision"])
        ):
            yield list(events)

    def event_of(self, raw: dict[str, Any], left_by: Callable[[str], LeftBy]) -> Event:
        """One event of a watch; ``left_by`` is asked about a node's key that is gone."""
        if raw.get("type", "PUT") == "PUT":
            return self._put_of(raw["kv"])
        key = self._name(raw["kv"]["key"])
        how = left_by(key.removeprefix(NODES)) if key.startswith(NODES) else LeftBy.NOTHING
        return Delete(key, int(raw["kv"]["mod_revision"]), how)

    def _put_of(self, pair: dict[str, Any]) -> Put:
        return Put(
            self._name(pair["key"]),
            decoded(pair.get("value", "")),
            int(pair["mod_revision"]),
            int(pair.get("lease", 0)),
        )

    def _name(self, key: str) -> str:
        return decoded(key).decode("utf-8", "surrogateescape").removeprefix(self.prefix)

    # ---- writing -------------------------------------------------------------------------------

    def put_member(self, member: Member, lease: int, *, expected_revision: int) -> int:
        """Put the node's key, which must have been put with ``expected_revision`` (0: be absent).

        Returns:
            The revision of the put; 0 when the key is another one by now.
        """
        key = self.prefix + NODES + member.name
        put = {"key": encoded(key), "value": encoded(write_member(member)), "lease": lease}
        return self._put_if(put, expected_revision)

    def put_settings(self, settings: Settings, *, expected_revision: int) -> int:
        """As ``put_member``, for the settings."""
        put = {"key": encoded(self.prefix + SETTINGS), "value": encoded(write_settings(settings))}
        return self._put_if(put, expected_revision)

    def _put_if(self, put: dict[str, Any], expected_revision: int) -> int:
        compare = {
            "key": put["key"],
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": expected_revision,
        }
        mark = {"key": encoded(self.prefix + CHANGES), "value": ""}
        puts: Sequence[dict[str, Any]] = [{"request_put": put}, {"request_put": mark}]
        answer = self.link.call("/kv/txn", {"compare": [compare], "success": puts, "failure": []})
        return int(answer["header"]["revision"]) if answer.get("succeeded") else 0


def _term(answer: dict[str, Any]) -> tuple[int, int]:
    header = answer["header"]
    return int(header["member_id"]), int(header.get("raft_term", 0))
