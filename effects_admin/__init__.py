"""The operator console: the journal in Django's admin, and the verbs that people may use on it. No models."""
