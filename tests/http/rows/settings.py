"""Settings of the web servers that the rows' tests start; `DATABASE_URL` names the test database."""

import os
from datetime import timedelta
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, MIDDLEWARE

DATABASES["default"]["CONN_MAX_AGE"] = None
# a test that copies the database ends every connection to it, and the server lives as long as the session
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
if "ROWS_LEASE_SECONDS" in os.environ:
    # a handler that is slower than this holds no transaction
    DATABASES["default"]["OPTIONS"]["options"] = "-c idle_in_transaction_session_timeout=1000"
ROOT_URLCONF = "tests.http.rows.shop"
MIDDLEWARE = ["tests.http.rows.asked.asked", *MIDDLEWARE]
EFFECTS: dict[str, Any] = {
    "DISPATCH": "none",
    "REQUEST_LEASE": timedelta(seconds=float(os.environ.get("ROWS_LEASE_SECONDS", "60"))),
}
