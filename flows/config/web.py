"""A search engine behind HTTP as a setting, and how its pages are fetched."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows.config.secrets import address_without_secrets, variable_name
from longform.net.web import Manners
from tasks.sources.web.web import BRAVE, Crawl, WebBackend

SEARCHES_AT_ONCE = 4
SECRETS = frozenset({"key", "apikey", "api_key", "api-key", "token", "access_token", "password", "secret", "auth"})


class WebConfig(BaseModel):
    """A search engine behind HTTP. The key stays in the environment; `key_env` names the variable."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["searxng", "brave"] = Field("searxng", description="searxng (self-hosted) or brave")
    url: str = Field(BRAVE, description="address of the engine, e.g. http://127.0.0.1:8080; of brave its own")
    key_env: str | None = Field(None, description="environment variable that holds the key; none for searxng")
    parameters: dict[str, str] = Field({}, description="sent with every search, e.g. language, engines")
    private_hosts: bool = Field(False, description="fetch pages of addresses that are not public, too")
    searches_per_second: float = Field(1.0, gt=0, le=1_000, description="what the engine bears, or your plan allows")
    pages_per_second: float = Field(1.0, gt=0, le=1_000, description="at most so many pages of one host")

    @model_validator(mode="after")
    def engine_can_be_reached(self) -> Self:
        """The settings unchanged. ValueError for an address that does not begin with http:// or https:// or holds a
        user, password or key, for searxng without an address of its own, for brave without key_env, for a key_env that
        names no variable, and for a parameter with the name of a secret (SECRETS).
        """
        if not self.url.startswith(("http://", "https://")) or (self.kind == "searxng" and self.url == BRAVE):
            raise ValueError(f'{self.kind} needs its address: set url, e.g. "http://127.0.0.1:8080"')
        address_without_secrets(self.url)
        if self.key_env is not None:
            variable_name(self.key_env)
        if self.kind == "brave" and not self.key_env:
            raise ValueError("brave needs a key: set key_env to the environment variable that holds it")
        if secret := next((name for name in self.parameters if name.casefold() in SECRETS), None):
            raise ValueError(f"parameters holds a {secret}: keys belong into a variable, see key_env")
        return self


def backend_of(web: WebConfig) -> WebBackend:
    """The search API of the setting."""
    return WebBackend(
        web.kind,
        web.url,
        web.key_env,
        tuple(sorted(web.parameters.items())),
        Manners(at_once=SEARCHES_AT_ONCE, per_second=web.searches_per_second),
    )


def crawl_of(web: WebConfig, takedowns: tuple[str, ...] = (), *, give_up: bool = False) -> Crawl:
    """How its pages are fetched. `takedowns`: ids of pages that must not be used; `give_up`: a page that does not
    answer counts as one that cannot be had.
    """
    return Crawl(
        private_hosts=web.private_hosts,
        takedowns=takedowns,
        manners=Manners(per_second=web.pages_per_second, give_up=give_up),
    )
