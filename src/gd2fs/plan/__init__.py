"""Plan: how much a fleet needs: a model and its users in, bytes, nodes and networks out.

``geometry`` and ``models`` say what a token weighs, ``demand`` what users ask of it, ``fleet`` what
follows.
"""

from __future__ import annotations

from gd2fs.plan.demand import Demand
from gd2fs.plan.fleet import Machines, Plan
from gd2fs.plan.geometry import DTYPES, Geometry
from gd2fs.plan.models import KNOWN, geometry_of

__all__ = ["DTYPES", "KNOWN", "Demand", "Geometry", "Machines", "Plan", "geometry_of"]
