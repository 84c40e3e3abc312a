"""People and a journal as the console's tests have them."""

from tests.console.conftest import ann, ben, chief, chromium, person, scene

__all__ = ["ann", "ben", "chief", "chromium", "person", "scene"]
