"""A small shop on django-effects, and what its demo needs."""
