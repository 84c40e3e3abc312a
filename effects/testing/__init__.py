"""What a host project's tests need: a provider's answers, time that passes, due work, assertions, a probe.

Works in TestCase, TransactionTestCase and pytest-django. Nothing of the runtime is replaced: only what the provider
answers is said by the test, and time passes by ageing the journal's rows. Names are imported on first use: the pytest
plugin in this package is loaded before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effects.testing.assertions import assert_performed as assert_performed
    from effects.testing.fakes import FakeOrder as FakeOrder
    from effects.testing.fakes import FakeProvider as FakeProvider
    from effects.testing.probe import ProbeError as ProbeError
    from effects.testing.probe import ProbeReport as ProbeReport
    from effects.testing.probe import ProbeResult as ProbeResult
    from effects.testing.probe import idempotency_probe as idempotency_probe
    from effects.testing.provider import ProviderScript as ProviderScript
    from effects.testing.provider import UnscriptedCallError as UnscriptedCallError
    from effects.testing.provider import provider_says as provider_says
    from effects.testing.provider import real_calls as real_calls
    from effects.testing.time import run_due as run_due
    from effects.testing.time import time_passes as time_passes

_HOME_OF = {
    "FakeOrder": "fakes",
    "FakeProvider": "fakes",
    "ProbeError": "probe",
    "ProbeReport": "probe",
    "ProbeResult": "probe",
    "ProviderScript": "provider",
    "UnscriptedCallError": "provider",
    "assert_performed": "assertions",
    "idempotency_probe": "probe",
    "provider_says": "provider",
    "real_calls": "provider",
    "run_due": "time",
    "time_passes": "time",
}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - mirrored by the names above, held together by a test


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'effects.testing' has no attribute {name!r}")
    return getattr(import_module(f"effects.testing.{_HOME_OF[name]}"), name)
