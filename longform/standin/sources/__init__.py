"""Stand-ins for the servers that sources are fetched from."""
