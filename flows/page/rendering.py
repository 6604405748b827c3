"""HTML from the templates beside this module. Every value is escaped; a template that misses a value is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


@cache
def environment() -> Environment:
    """The environment of all templates, for a part that adds filters of its own."""
    return Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _templates() -> Jinja2Templates:
    return Jinja2Templates(env=environment())


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """The page that a template (a path under templates/) makes of these values. Beside them it sees `request` and
    `account`, who is logged in (None: nobody, or a page for which it does not matter).
    """
    values = {"account": getattr(request.state, "account", None), "part": "", **values}
    return _templates().TemplateResponse(request, template, values, status_code=status)
