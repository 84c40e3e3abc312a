"""What is answered is what the schema says, for requests drawn from the schema itself."""

from __future__ import annotations

from typing import Any

import hypothesis.core
import pytest
from schemathesis.generation.hypothesis import setup

from tests.schema import running
from tests.schema.shop import Crowd


# what draws long requests says that it shows long requests
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_schemathesis_finds_nothing(drawn: Any, crowd: Crowd) -> None:
    """No check of schemathesis fails, for single requests or for sequences in which one answer leads to the next."""
    assert "\n\n".join(running.findings(drawn)) == ""
    # it did come to what matters: orders, payments, refunds at once and after an approval, refusals of each kind
    assert {("POST", status) for status in (201, 202, 400, 401, 403, 404, 405, 409, 415)} <= crowd.statuses
    assert {("GET", status) for status in (200, 401, 404)} <= crowd.statuses


def test_schemathesis_disturbs_no_other_test(pytestconfig: Any) -> None:
    """Its plugin is off, and what it changes in Hypothesis is put back: others show the example that failed."""
    assert pytestconfig.pluginmanager.is_blocked("schemathesis")
    before = hypothesis.core.RepresentationPrinter
    with running.hypothesis_put_back():
        setup._is_patched = False
        setup()
        assert hypothesis.core.RepresentationPrinter is not before
    assert hypothesis.core.RepresentationPrinter is before
