"""Fork: the threads of a client stay in the parent, so its copy in a child is never touched again.

The child's copy turns into one that refuses every call and needs no end. What the native side may
hold on to there is leaked on purpose: letting it go would wait for threads that do not exist.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, NoReturn, Protocol

from gd2fs import _core
from gd2fs.errors import Closed


class Owner(Protocol):
    """What holds a native client."""

    def forget_parent(self) -> None:
        """Run in a forked child: `abandon` what is native, and make new locks."""


class NativeClient(_core.Client):
    """The native client, of a class that ``abandon`` can change."""


class AbandonedClient(_core.Client):
    """What a native client is in a forked child."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Closed(
            "the client was made before fork: its threads run in the parent",
            hint="make a new client in the child",
        )

    get_pages = put_pages = exists = drop_pages = list_pages = _refuse
    create = write = put = append = read = stat = truncate = unlink = list_files = _refuse
    view_page = view_file = _refuse
    register_memory = deregister_memory = direct_lack = _refuse
    advise_memory = advise_pages = sync_file = sync_pages = ask_nodes = _refuse
    advise = clear = ping = drain = fileno = finished = counts = map = cluster = _refuse

    def close(self) -> None:
        """Nothing is left to end."""


def close_in_children(owner: Owner) -> None:
    """Have ``owner.forget_parent()`` called in every child forked from now on."""
    _owners.add(owner)


def abandon(core: _core.Client) -> None:
    """Turn this process's copy of ``core`` into one that is closed."""
    leak(core)
    core.__class__ = AbandonedClient


def leak(held: object) -> None:
    """Keep ``held`` as long as the process runs, and through its end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


# Every owner of this process. Changed under the GIL alone, so a child finds it whole.
_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def _close_all() -> None:
    for owner in list(_owners):
        owner.forget_parent()
    _owners.clear()


os.register_at_fork(after_in_child=_close_all)
