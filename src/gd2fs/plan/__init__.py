"""Plan: how much a fleet needs: a model and its users in, bytes, nodes and networks out.

``geometry`` and ``models`` say what a token weighs, ``work`` what users do, ``fleet`` what follows.
"""

from __future__ import annotations

from gd2fs.plan.fleet import Machines, Plan
from gd2fs.plan.geometry import DTYPES, Geometry
from gd2fs.plan.models import KNOWN, geometry_of
from gd2fs.plan.work import Work

__all__ = ["DTYPES", "KNOWN", "Geometry", "Machines", "Plan", "Work", "geometry_of"]
