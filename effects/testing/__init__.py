"""What a host project's tests need: `provider_says`, `time_passes`, `assert_performed`, `run_due`.

Works in TestCase, TransactionTestCase and pytest-django. Nothing of the runtime is replaced: only what the provider
answers is said by the test, and time passes by ageing the journal's rows.
"""

from effects.testing.assertions import assert_performed
from effects.testing.provider import ProviderScript, provider_says
from effects.testing.time import run_due, time_passes

__all__ = ["ProviderScript", "assert_performed", "provider_says", "run_due", "time_passes"]
