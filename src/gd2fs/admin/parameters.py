"""Parameters: what stands after the ``?`` of a path, of which each route knows some or none.

Others are refused: what is misspelt would be an answer to another question.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from gd2fs.argument import NAME_SHOWN_MAX
from gd2fs.errors import InvalidRequest


def parameters_of(request: Request, known: Sequence[str]) -> dict[str, str]:
    """The value of each of ``known``, empty where it is not said.

    Raises:
        InvalidRequest: Another one is there, or one twice.
    """
    said: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise InvalidRequest(
                f"`{name[:NAME_SHOWN_MAX]}` is no parameter of {request.url.path}",
                hint=f"give {', '.join(known)}" if known else "it takes none",
            )
        if name in said:
            raise InvalidRequest(f"`{name}` is given twice", hint="give it once")
        said[name] = value
    return dict.fromkeys(known, "") | said
