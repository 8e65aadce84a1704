"""Passes that write operators of rows for instructions of one's own."""
