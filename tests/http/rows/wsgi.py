"""What the web servers of the rows' tests serve."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.http.rows.settings")
application = get_wsgi_application()
# the views are imported once, by whoever forks the workers
from tests.http.rows import shop  # noqa: E402, F401
