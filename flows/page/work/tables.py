"""The tables of the part Work. Times are milliseconds since 1970; documents are JSON as text."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()
FORMAT = 1  # of all tables on METADATA: one more with each change that an older release could not work with

FORMATS = Table("page_format", METADATA, Column("format", Integer, primary_key=True))
ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("account_id", String(64), primary_key=True),  # the pseudonym that goes into rows
    Column("name", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("disabled", Boolean, nullable=False, default=False),
    Column("created_at", BigInteger, nullable=False),
)
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("token_hash", String(64), primary_key=True),  # of the cookie's token, which is stored nowhere
    Column("account_id", ForeignKey("accounts.account_id"), nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
FAILED_LOG_INS = Table(
    "failed_log_ins",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("subject", String(64), nullable=False),  # hash of an account's name or of an address
    Column("at", BigInteger, nullable=False),
    Index("failed_log_ins_of", "subject", "at"),
)
ROUNDS = Table(
    "rounds",
    METADATA,
    Column("round_id", String(32), primary_key=True),
    Column("dataset", String(64), nullable=False),
    Column("version", String(100), nullable=False),
    Column("form_name", String(64), nullable=False),  # "" for a dataset's only form
    Column("form", Text, nullable=False),
    Column("has_rule", Boolean, nullable=False),  # the form has `unfit`, which is code and is not stored
    Column("setting", String(64), nullable=False),  # of the dataset, which names filled-in files
    Column("role", String(16), nullable=False),  # the first role that it is for
    Column("overlap", Integer, nullable=False),  # annotators of each task
    Column("seed", BigInteger, nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("open", Boolean, nullable=False, default=True),
    Column("created_at", BigInteger, nullable=False),
)
TASKS = Table(
    "tasks",
    METADATA,
    Column("round_id", ForeignKey("rounds.round_id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("meant_for", String(64)),  # the account it is meant for, null: anybody
    Column("not_for", String(64)),  # the account whose own work it is about
    Column("task", Text, nullable=False),  # as it is shown: items and sides in their drawn order
    UniqueConstraint("round_id", "task_id"),
    Index("tasks_meant_for", "round_id", "meant_for", "position"),
)
ASSIGNMENTS = Table(
    "assignments",
    METADATA,
    Column("assignment_id", String(32), primary_key=True),
    Column("round_id", String(32), nullable=False),
    Column("position", Integer, nullable=False),
    Column("annotator_id", String(64), nullable=False),  # an account, or whoever an imported sheet names
    Column("slot", Integer),  # below the round's overlap; null: skipped, or lost to somebody else
    Column("state", String(16), nullable=False),  # open, submitted or skipped
    Column("lease_until", BigInteger, nullable=False),
    Column("draft", Text),  # names and values of the form, not yet submitted
    Column("entries", Text),  # checked values: [item_id, field, value] each
    Column("seconds", Float, nullable=False, default=0),
    Column("opened_at", BigInteger, nullable=False),
    Column("touched_at", BigInteger, nullable=False),
    Column("submitted_at", BigInteger),
    ForeignKeyConstraint(["round_id", "position"], ["tasks.round_id", "tasks.position"]),
    UniqueConstraint("round_id", "position", "annotator_id"),
    UniqueConstraint("round_id", "position", "slot"),
    Index("assignments_of", "annotator_id", "round_id", "state"),
)
SUBMISSIONS = Table(
    "submissions",
    METADATA,
    Column("submission_id", String(64), primary_key=True),  # chosen when the form is shown: sent twice, it counts once
    Column("assignment_id", ForeignKey("assignments.assignment_id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("entries", Text, nullable=False),
    Column("seconds", Float, nullable=False),
)
