"""pygd2fs: the published client interface of GD2FS, a thin face over ``gd2fs``.

Names and signatures are the published ones, so adapters written against them run unchanged.
"""

from pygd2fs.client import Client
from pygd2fs.memory import IOMEM, SGE
from pygd2fs.request import InspectStatus, Request

__all__ = ["IOMEM", "SGE", "Client", "InspectStatus", "Request"]
