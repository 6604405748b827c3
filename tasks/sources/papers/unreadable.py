"""What a file that becomes no paper is called."""


class UnreadableError(Exception):
    """A file that is no paper. `reason`: a short fixed phrase, which reports count by."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail
