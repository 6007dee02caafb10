"""Reference: the table of metrics as a page of documentation.

``python -m gd2fs.metrics.reference > docs/reference/metrics.md`` writes it anew.
"""

from __future__ import annotations

import sys

from gd2fs.admin.refusals import REASONS
from gd2fs.metrics.families import SECTIONS, Family

HEAD = """\
# Metrics

Made by `python -m gd2fs.metrics.reference`: change `src/gd2fs/metrics/families.py` instead.

A node shows these at `/metrics` of its admin address, in Prometheus' text format. Counters grow
from the start of the process. What to watch, and what to do about it:
[Watch it](../guides/monitoring.md).

A token that is for some namespaces sees the series that have these in their label `namespace`, and
nothing else.
"""

LABELS = {
    "`namespace`": (
        "the first 1,000 that were seen and all that have rules; `/other` for the rest. In "
        "`gd2fs_namespace_bytes` and of quotas: those with rules, and an empty one for the rest"
    ),
    "`tier`": "where it was found: `memory`, `disk`; `none` of a miss",
    "`result`": "`hit`, `miss`; of probes `found`, `missing`",
    "`reason` of a miss": (
        "`absent`: nothing is known of it; or what became of it lately: `evicted`, `over_quota`, "
        "`expired`, `dropped`, `superseded`, `dropped_by_advice`, `corrupt`, `moved`, "
        "`not_demoted`, `not_admitted`, `never_committed`, `lost_by_the_disk`; or what stood in "
        "the way: `no_room` to load it from disk, `timeout`, `refused`, `invalid`"
    ),
    "`reason` of what was evicted": "`room`: in the node; `quota`: in its namespace",
    "`reason` of what is gone": "as of a miss",
    "`reason` of a refused stream": (
        "`bad_hello`, `no_token`, `unknown_token`, `wrong_proof`, `timeout`, `too_many`, `rate`: "
        "too many of its source came to nothing; `left`: it went before it had proven itself; "
        "`tls_required`: it spoke no TLS; `tls_certificate`: one side did not take the other's; "
        "`tls_handshake`: TLS came to nothing"
    ),
    "`reason` of what the admin side refused": "; ".join(
        f"`{reason}`: {text}" for reason, text in REASONS.items()
    ),
    "`policy`": "`lru`, `s3-fifo`, `priority`",
    "`op`": (
        "of the wire: `get` and `exists` of pages, `read` and `meta` of files, `offer` (a write), "
        "`commit`, `advise`, `ping`, …"
    ),
    "`transport`": (
        "`tcp`, which is TLS on a node that has it: it takes no other; `unix`; `shm`: the reader "
        "copies out of the node's memory itself; `rdma`: by one-sided transfers"
    ),
    "`state` of the arena": (
        "`free`, `filling`, `loading`, `staged` (not committed yet), `live`, `zombie` (gone, but "
        "still being read), `record` (bookkeeping)"
    ),
    "`state` of the node": "`joining`, `active`, `draining`, `gone`",
    "`peer`": "the other node's name",
}
TAIL = """
Beside these there are the usual `process_*` of the node's process. The buckets of
`gd2fs_request_seconds` end at 50 µs, 100 µs, 250 µs, 500 µs and so on to 10 s, and are the same
everywhere.
"""


def text() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, families in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n")
        parts.extend(_row(family) for family in families)
    parts.append("\n## What labels say\n\n| label | values |\n|---|---|\n")
    parts.extend(f"| {label} | {values} |\n" for label, values in LABELS.items())
    return "".join(parts) + TAIL


def _row(family: Family) -> str:
    name = family.series[0] if len(family.series) == 1 else family.name
    labels = ", ".join(f"`{label}`" for label in family.labels)
    meaning = f"{family.text} ({family.when})" if family.when else family.text
    return f"| `{name}` | {family.kind} | {labels} | {meaning} |\n"


if __name__ == "__main__":
    sys.stdout.write(text())
