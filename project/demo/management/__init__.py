"""The demo's commands."""
