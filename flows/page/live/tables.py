"""The tables of live sessions. Times are milliseconds since 1970; documents are JSON as text."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from flows.page.work.tables import METADATA

LIVE_SESSIONS = Table(
    "live_sessions",
    METADATA,
    Column("session_id", String(32), primary_key=True),
    Column("annotator_id", ForeignKey("accounts.account_id"), nullable=False),
    Column("question_id", Text, nullable=False),
    Column("system", Text, nullable=False),  # the endpoint that writes, which the reader never sees
    Column("held", Integer),  # 1 while the question is this reader's with this system; null once the lease was lost
    Column("state", String(16), nullable=False),  # open or finished
    Column("answer", Text, nullable=False),  # the row of the first answer
    Column("question", Text, nullable=False),  # the row of the question
    Column("titles", Text, nullable=False),
    Column("draft", Text),  # what the fields of the next step hold, and the seconds so far
    Column("begun_at", BigInteger, nullable=False),
    Column("touched_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    UniqueConstraint("question_id", "annotator_id"),  # nobody gets a question twice
    UniqueConstraint("question_id", "system", "held"),
)
LIVE_TURNS = Table(
    "live_turns",
    METADATA,
    Column("session_id", ForeignKey("live_sessions.session_id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("state", String(16), nullable=False),  # asked, written, rated or failed
    Column("kind", String(16), nullable=False),
    Column("instruction", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("references", Integer, nullable=False),  # number of the first passage of this turn
    Column("written", Text),  # what came of it: passages, summary, answer, and who wrote it
    Column("error", Text),
    Column("cost_nano", BigInteger, nullable=False, default=0),
    Column("calls", Integer, nullable=False, default=0),
    Column("rating", String(16)),
    Column("comment", Text),
    Column("edited", Text),
    Column("seconds", Float, nullable=False, default=0),
    Column("asked_at", BigInteger, nullable=False),
    Column("rated_at", BigInteger),
)
LIVE_TOPICS = Table(
    "live_topics",
    METADATA,
    Column("annotator_id", ForeignKey("accounts.account_id"), primary_key=True),
    Column("topic", String(200), primary_key=True),
)
