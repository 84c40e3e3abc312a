#!/usr/bin/env python
"""Run Django's commands for the example project."""

import os
import sys


def main() -> None:
    """Run the command that was given on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415 - the message below
        from django.core.management import execute_from_command_line  # noqa: PLC0415
    except ImportError as error:
        raise SystemExit("Django is not installed here: pip install -r requirements.txt") from error
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # its message says what to do, and a traceback would hide it
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
