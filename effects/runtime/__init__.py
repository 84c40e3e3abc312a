"""What performs effects: the public verbs, the call between two commits, and what runs in the background."""
