"""Training preference models on a published version: one or a list of them, and their progress."""
