"""The HTTP side: keys, fingerprints, problems, and the decorator that uses them."""
