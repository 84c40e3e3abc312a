"""Reads and reports about the journal and the project. Nothing here changes anything."""
