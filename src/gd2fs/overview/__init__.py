"""Overview: a whole cluster at one moment, put together from what its nodes say of themselves.

``report`` is what one node says; ``watch`` asks all and puts it together, of ``latency``,
``namespaces`` and ``problems``; ``desk`` shows it to whoever looks over HTTP.
"""

from gd2fs.overview.watch import ClusterWatch, Overview

__all__ = ["ClusterWatch", "Overview"]
