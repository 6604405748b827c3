"""Drafts of one's own measured without building a dataset, and editors tested."""
