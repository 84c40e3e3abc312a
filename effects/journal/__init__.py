"""The database under every room above: commits, locks, the clock, redaction, frozen copies of rows."""
