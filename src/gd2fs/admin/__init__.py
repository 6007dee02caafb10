"""Admin: the small HTTP side of a node, for probes, Prometheus, routers and people.

``side`` puts it together. ``server`` and ``door`` are about connections, ``guard`` and ``refusals``
about who may ask what, ``app`` and ``body`` about paths and what is said there.
"""

from gd2fs.admin.side import AdminSide

__all__ = ["AdminSide"]
