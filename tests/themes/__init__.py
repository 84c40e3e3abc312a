"""The console under themes that take the place of Django's admin."""
