from longform.llm.types import *
from longform.llm.offline import respond
import hashlib


class Client:
    def __init__(s, e, p, *, api_key):
        s.e = e

    def ask(s, items):
        for it, r in items:
            t, f, i, o = respond(r)
            yield it, Answer(t, hashlib.sha256(repr(r).encode()).hexdigest(), "offline-rules-1", f, i, o)

    def close(s):
        pass
