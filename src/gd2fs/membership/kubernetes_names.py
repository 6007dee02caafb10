"""Names of the objects of a cluster in Kubernetes, which takes fewer letters than we do."""

from __future__ import annotations

import hashlib
import re

PLAIN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # a label of DNS
SLUG_MAX = 40  # characters of a name that are kept where it is none
SUM_BYTES = 6


def map_name(cluster: str) -> str:
    """Of the ConfigMap that has the cluster's map."""
    return f"gd2fs.{label_of(cluster)}"


def lease_name(cluster: str, node: str) -> str:
    """Of the Lease of a node: different for different ones."""
    return f"gd2fs.{label_of(cluster)}.{label_of(node)}"


def labels_of(cluster: str) -> dict[str, str]:
    """What all objects of a cluster are labelled with."""
    return {"app.kubernetes.io/managed-by": "gd2fs", "gd2fs/cluster": label_of(cluster)}


def label_of(name: str) -> str:
    """The name itself where it can be a label of DNS, else what it has of one and a sum."""
    if PLAIN.fullmatch(name) and "--" not in name:  # which those with a sum have
        return name
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:SLUG_MAX].strip("-") or "x"
    return f"{slug}--{hashlib.blake2b(name.encode(), digest_size=SUM_BYTES).hexdigest()}"
