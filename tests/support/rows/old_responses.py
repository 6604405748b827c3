"""A response store in format 1, as the first release wrote it."""

from __future__ import annotations

FORMAT_1 = """
CREATE TABLE response(
  key BLOB PRIMARY KEY, created REAL, endpoint TEXT, model TEXT, task TEXT, prompt TEXT,
  state INTEGER NOT NULL, finish TEXT, code TEXT,
  ptok INTEGER, cached_tok INTEGER, ctok INTEGER, rtok INTEGER, tok_limit INTEGER,
  cost_nano INTEGER, batch INTEGER, ms INTEGER,
  request_id TEXT, served_model TEXT, fingerprint TEXT, request BLOB, body BLOB NOT NULL);
CREATE TABLE meta(k TEXT PRIMARY KEY, v TEXT);
INSERT INTO meta VALUES ('key_version', '1');
PRAGMA user_version = 1;
PRAGMA journal_mode=WAL;
"""
