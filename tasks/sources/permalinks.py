"""Where a Stack Exchange post and its author can be found: what attribution has to link."""


def permalink(post_id: str, kind: str) -> str:
    """The post's short link, which never changes: https://host/q/4711 or https://host/a/4712."""
    host, number = post_id.split("/", 1)
    return f"https://{host}/{'q' if kind == 'question' else 'a'}/{number}"


def profile(host: str, author_id: str | None) -> str | None:
    """The author's page, or None for a deleted user."""
    return None if author_id is None else f"https://{host}/users/{author_id}"
