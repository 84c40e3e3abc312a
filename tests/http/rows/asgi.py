"""What the ASGI server of the rows' tests serves."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.http.rows.settings")
application = get_asgi_application()
# the views are imported before the first request comes
from tests.http.rows import shop  # noqa: E402, F401
