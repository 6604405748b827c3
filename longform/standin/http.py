"""Replies of the stand-in before they are sent, and OpenAI's shape of an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


@dataclass(slots=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def as_json(document: Any, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps(document))


def error_document(
    message: str, kind: str = "invalid_request_error", parameter: str | None = None, code: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def refusal(status: int, message: str, parameter: str | None = None, code: str | None = None) -> Refused:
    """An error of the caller, to be raised."""
    return Refused(as_json(error_document(message, "invalid_request_error", parameter, code), status))


def checked(model: type[M], body: Any) -> M:
    """The body of a request as this model. Raises Refused (400) that names the first wrong field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(step) for step in first["loc"])
        raise refusal(400, f"{name or 'The body'}: {first['msg']}.", name or None, "invalid_value") from None
