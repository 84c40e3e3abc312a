"""Programs that load django-effects for minutes instead of testing one thing at a time. Not installed with it."""
