"""How much time passes in the stories."""

from datetime import timedelta

#: Every lease is past: of a send, of a look-up, of a handler.
AFTER_LEASE = timedelta(minutes=2)
#: The quiet time is over, too.
AFTER_QUIET = timedelta(minutes=10)
DAY = timedelta(days=1)
