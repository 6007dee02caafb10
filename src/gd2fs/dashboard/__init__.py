"""The dashboard: one page about the whole cluster, at every node's admin address."""

from gd2fs.dashboard.page import Page
from gd2fs.dashboard.routes import dashboard_routes

__all__ = ["Page", "dashboard_routes"]
