"""A Stripe on this machine: localstripe, which keeps its ledger in memory.

It is not as strict as the real one, and in one point stricter for us: it ignores idempotency keys, so that a
request that is sent twice is carried out twice and shows up in the ledger.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

from .processes import Processes, Service, ServiceError, answers

API_KEY = "sk_test_effects"
ROOT = Path(__file__).resolve().parent.parent.parent


def start(processes: Processes) -> Service:
    """Return a localstripe with an empty ledger; `API_KEY` opens it.

    Raises:
        ServiceError: It is not installed, or it does not answer.
    """
    if importlib.util.find_spec("localstripe") is None:
        raise ServiceError("localstripe is not installed here: pip install -r requirements.txt")
    process, port = processes.start_on_port(
        "localstripe",
        lambda port: [sys.executable, "-m", __name__, "--port", str(port)],
        ready=lambda port: answers(f"http://127.0.0.1:{port}/v1/refunds"),
        cwd=ROOT,
    )
    return Service(f"http://127.0.0.1:{port}", process, processes)


def main() -> None:
    """Serve localstripe on a port of 127.0.0.1."""
    from aiohttp import web  # noqa: PLC0415 - the parent process needs none of this
    from localstripe import resources, server  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    # Its own start listens on all interfaces and writes the ledger to one file for all users of the machine.
    resources.Store.dump_to_disk = lambda _store: None
    web.run_app(server.app, host="127.0.0.1", port=arguments.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
