"""Words and frozen values of the library. Nothing here imports Django, and nothing acts."""
