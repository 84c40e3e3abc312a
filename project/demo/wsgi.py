"""What the demo's web server runs: the project, and the admin's style sheets without a second server."""

from __future__ import annotations

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = StaticFilesHandler(get_wsgi_application())
