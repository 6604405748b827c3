"""The request bodies that the stand-in server accepts: OpenAI's fields and bounds, with OpenAI's error responses.

Fields without an effect here (`seed`, `temperature`, …) are accepted and ignored.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, Field, StrictInt, ValidationError, model_validator

from longform.llm import offline

CHAT, EMBEDDINGS, RESPONSES = "/v1/chat/completions", "/v1/embeddings", "/v1/responses"
DEFAULT_LIMIT = 2048
MAX_CHOICES = 128
MAX_INPUTS = 2048
MAX_ALTERNATIVES = 20
DIMENSIONS = 256
NOT_IN_RESPONSES = ("messages", "n", "seed", "max_tokens", "max_completion_tokens", "response_format", "logprobs")
LOGPROBS = "message.output_text.logprobs"
MAX_PAIRS, MAX_NAME, MAX_VALUE = 16, 64, 512

Limit = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
Text = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[StrictInt], Field(min_length=1)]
M = TypeVar("M", bound=BaseModel)


class ErrorReply(Exception):
    """Raised for a request that is answered with an error; `reply` is that error response."""

    def __init__(self, reply: web.Response) -> None:
        self.reply = reply


def as_json(document: Any, status: int = 200) -> web.Response:
    """A JSON response with this document and status."""
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def error_document(
    message: str, kind: str = "invalid_request_error", parameter: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error body as OpenAI sends it. `kind` is its `type`, `parameter` its `param`."""
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def refusal(status: int, message: str, parameter: str | None = None, code: str | None = None) -> ErrorReply:
    """An ErrorReply with an error body of type invalid_request_error, for the caller to raise."""
    return ErrorReply(as_json(error_document(message, "invalid_request_error", parameter, code), status))


def checked(model: type[M], body: Any) -> M:
    """The body of a request validated as `model`. ErrorReply (400), which names the first invalid field, if it is not
    valid.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(step) for step in first["loc"])
        raise refusal(400, f"{name or 'The body'}: {first['msg']}.", name or None, "invalid_value") from None


class Part(BaseModel):
    """One part of a message's content; only text is accepted."""

    text: str


class Message(BaseModel):
    """A chat message; `content` is a text or a list of text parts."""

    role: str
    content: str | list[Part]

    @property
    def text(self) -> str:
        """The content as one text, parts joined without anything between them."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class JsonSchema(BaseModel):
    """The `json_schema` of a response format; only its `schema` is read."""

    document: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    """The form of reply that a request asks for. `json_schema` must be given for the type json_schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("json_schema is missing")
        return self


class Question(BaseModel):
    """A chat completion request; fields that are not listed are ignored. With `effort` "low" the offline model writes
    plainer drafts. `top_logprobs` is refused unless `logprobs` is true.
    """

    model: Text
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: Limit | None = None
    max_tokens: Limit | None = None
    n: Annotated[int, Field(strict=True, ge=1, le=MAX_CHOICES)] | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(strict=True, ge=0, le=MAX_ALTERNATIVES)] | None = None
    stream: Literal[False] | None = None
    effort: str = ""

    @model_validator(mode="after")
    def _logprobs_for_alternatives(self) -> Question:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self

    @property
    def limit(self) -> int:
        """The most tokens of one choice: max_completion_tokens, else max_tokens, else DEFAULT_LIMIT."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_LIMIT

    @property
    def choices(self) -> int:
        """How many choices are asked for: `n`, by default 1."""
        return self.n or 1

    @property
    def schema_asked(self) -> dict[str, Any] | None:
        """The JSON schema that the reply must fit: {"type": "object"} for response_format json_object; None for plain
        text.
        """
        if self.response_format is None or self.response_format.type == "text":
            return None
        form = self.response_format.json_schema
        return form.document if form and self.response_format.type == "json_schema" else {"type": "object"}

    @cached_property
    def prompt_tokens(self) -> int:
        """The tokens of all messages' texts, counted by the offline model: one for each 4 characters, rounded up."""
        return offline.tokens(sum(len(message.text) for message in self.messages))

    @property
    def tokens_admitted(self) -> int:
        """The tokens charged to the rate limit: the prompt's, and the token limit of every choice."""
        return self.prompt_tokens + self.limit * self.choices


class ResponsesQuestion(Question):
    """A request of the Responses API, read as a chat completion request; `n` and `seed` are refused."""

    @model_validator(mode="before")
    @classmethod
    def _as_chat(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        if wrong := [name for name in NOT_IN_RESPONSES if name in body]:
            raise refusal(400, f"Unknown parameter: '{wrong[0]}'.", wrong[0], "unknown_parameter")
        asked = body.get("input")
        text = body.get("text")
        form = text.get("format") if isinstance(text, dict) else None
        return {
            **body,
            "messages": [{"role": "user", "content": asked}] if isinstance(asked, str) else asked,
            "max_completion_tokens": body.get("max_output_tokens"),
            "response_format": {**form, "json_schema": form if "schema" in form else None}
            if isinstance(form, dict)
            else None,
            "logprobs": LOGPROBS in (body.get("include") or []) or None,
        }


class Texts(BaseModel):
    """An embeddings request: one text or several. A text given as token ids is embedded as the ids written as words."""

    model: Text
    input: Text | TokenIds | Annotated[list[Text | TokenIds], Field(min_length=1, max_length=MAX_INPUTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to embed, in order."""
        is_one = isinstance(self.input, str) or isinstance(self.input[0], int)
        return [_text(each) for each in ([self.input] if is_one else self.input)]

    @property
    def tokens_admitted(self) -> int:
        """The tokens charged to the rate limit: those of all texts."""
        return sum(offline.tokens(len(text)) for text in self.texts)


def _text(words: Any) -> str:
    """A text as it is; token ids written as words, with blanks between them."""
    return words if isinstance(words, str) else " ".join(map(str, words))


class BatchRequest(BaseModel):
    """A request to create a batch from an uploaded file."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/embeddings"]
    completion_window: Literal["24h"]
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=MAX_NAME)], Annotated[str, Field(max_length=MAX_VALUE)]],
            Field(max_length=MAX_PAIRS),
        ]
        | None
    ) = None


class ListRequest(BaseModel):
    """The query of a list request: at most `limit` rows, those after the row with the id `after`."""

    after: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class FileListRequest(ListRequest):
    """The query of a list of files: as in ListRequest, newest first (`desc`) or last, only those of `purpose`, None:
    all.
    """

    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None
