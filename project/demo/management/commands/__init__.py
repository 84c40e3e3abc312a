"""The demo's commands, one a module."""
