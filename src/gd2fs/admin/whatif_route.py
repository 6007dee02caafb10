"""What-if route: what the cluster would find with more memory, disk or nodes.

GET /v1/whatif  ?dram=2x&nvme=4TiB&nodes=+2: as `gd2fs whatif --json`, but for what it is worth
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gd2fs.admin.guard import AdminGuard, said_in
from gd2fs.client import Client
from gd2fs.whatif.answer import answer_of
from gd2fs.whatif.curves import curves_of
from gd2fs.whatif.question import Question

Connect = Callable[[], Client]
PARAMETERS = ("dram", "nvme", "nodes")


def whatif_routes(connect: Connect, guard: AdminGuard) -> list[Route]:
    """Make them. ``connect`` gives a client of the whole cluster, to be closed by who asked."""

    def whatif(request: Request) -> Response:
        said = said_in(request)
        plus = said["nodes"].replace(" ", "+")  # as which a `+` comes that nobody has escaped
        question = Question.parse(**(said | {"nodes": plus}))
        with connect() as client:
            told, silent = curves_of(client)
        answer = answer_of(told, question)
        return JSONResponse(
            asdict(answer) | {"left_out": silent}, headers={"cache-control": "no-store"}
        )

    return [Route("/v1/whatif", guard.needs("read", whatif, parameters=PARAMETERS))]
