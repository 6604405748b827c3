"""Drafts of one's own: read from files or frames, measured, ranked, reported."""
