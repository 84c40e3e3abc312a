"""Management of the journal from the command line."""
