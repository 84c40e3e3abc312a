"""The OpenAPI schema of protected views."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from effects.http.problems import CODES
from effects.models import Request
from effects.vocabulary.states import ExecutionState, RequestState

JSON, PROBLEM = "application/json", "application/problem+json"


def schema_of(urlconf: str | None = None) -> dict[str, Any]:
    """Generate, validate, and refuse warnings, as `manage.py spectacular --validate --fail-on-warn`."""
    out = io.StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, urlconf=urlconf, stdout=out)
    return yaml.safe_load(out.getvalue())


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema of the test's own views."""
    return schema_of("tests.http.schema_urls")


def parameter(operation: dict[str, Any], name: str = "Idempotency-Key") -> dict[str, Any] | None:
    return next((it for it in operation.get("parameters", ()) if it["name"] == name), None)


def codes_of(schema: dict[str, Any]) -> set[str]:
    """The codes that a problem can have under one status."""
    component, codes = schema["allOf"]
    assert component == ref("EffectsProblem")
    return set(codes["properties"]["code"]["enum"])


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def test_the_schema_of_the_shop_is_valid_and_without_warnings() -> None:
    """`manage.py spectacular --validate --fail-on-warn` passes for the project, and shows the header."""
    paths = schema_of()["paths"]
    assert parameter(paths["/orders/{order_id}/refunds/"]["post"])
    assert parameter(paths["/orders/{order_id}/"]["get"]) is None
    assert "/operations/{ref}/" in paths


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/api/", "post"),
        ("/api/", "patch"),
        ("/things/", "post"),
        ("/things/below/", "post"),
        ("/things/above/", "post"),
        ("/function/", "post"),
    ],
)
def test_a_protected_method_shows_its_key_its_problems_and_the_replay(
    schema: dict[str, Any], path: str, method: str
) -> None:
    """Wherever the decorator stands: method, action, function, above or below `@extend_schema`."""
    operation = schema["paths"][path][method]
    key = parameter(operation)
    assert key is not None
    assert key["in"] == "header"
    assert key.get("required", False) == (method != "patch")
    for status in ("400", "409", "413", "422", "503"):
        assert codes_of(operation["responses"][status]["content"][PROBLEM]["schema"])
    own = next(status for status in operation["responses"] if status in {"200", "201", "204"})
    assert "Idempotent-Replayed" in operation["responses"][own]["headers"]
    assert "Retry-After" in operation["responses"]["503"]["headers"]


def test_each_code_is_named_under_its_status(schema: dict[str, Any]) -> None:
    """Schema and description of an answer list what it can be; an optional key is never missing."""
    responses = schema["paths"]["/api/"]["post"]["responses"]
    for code, kind in CODES.items():
        if code != "operation_not_found":  # the status resource alone has that
            assert code in codes_of(responses[str(kind.status)]["content"][PROBLEM]["schema"])
            assert f"`{code}`" in responses[str(kind.status)]["description"]
    optional = schema["paths"]["/api/"]["patch"]["responses"]
    assert "idempotency_key_missing" not in optional["400"]["description"]
    assert "Idempotency-Status" in optional["200"]["headers"]


def test_other_methods_of_the_class_are_left_alone(schema: dict[str, Any]) -> None:
    """A safe method, an undecorated action, and what is excluded."""
    for path in ("/api/", "/things/"):
        assert set(schema["paths"][path]["get"]["responses"]) == {"200"}
        assert parameter(schema["paths"][path]["get"]) is None
    assert "/things/hidden/" not in schema["paths"]


def test_what_the_view_says_itself_stays(schema: dict[str, Any]) -> None:
    """Its own answers under the same statuses, its schema class, its documentation."""
    operation = schema["paths"]["/api/"]["patch"]
    assert operation["tags"] == ["own"]
    assert operation["description"] == "Change a thing."
    responses = operation["responses"]
    assert responses["202"]["content"][JSON]["schema"] == {"anyOf": [ref("Thing"), ref("EffectsOperationStatus")]}
    assert responses["409"]["content"][JSON]["schema"] == ref("Thing")
    assert "operation_uncertain" in codes_of(responses["409"]["content"][PROBLEM]["schema"])


def test_only_a_journaled_view_answers_202(schema: dict[str, Any]) -> None:
    """A transactional one holds no answer back."""
    assert "202" not in schema["paths"]["/api/"]["post"]["responses"]
    answer = schema["paths"]["/things/below/"]["post"]["responses"]["202"]
    assert set(answer["headers"]) == {"Location", "Retry-After"}
    assert answer["content"][JSON]["schema"] == ref("EffectsOperationStatus")


def test_the_vocabularies_are_those_of_the_code(schema: dict[str, Any]) -> None:
    """States are an enum of their own component, apart from equally named fields of the project."""
    components = schema["components"]["schemas"]
    states = {str(word) for word in (*ExecutionState, *RequestState)}
    assert set(components["EffectsOperationState"]["enum"]) == states
    problem = components["EffectsProblem"]["properties"]
    assert {"operation_ref", "operation_state", "safe_new_key", "status_url"} <= set(problem)


def test_the_status_resource_is_in_the_schema(schema: dict[str, Any], send: Any, approver: Any) -> None:
    """With the members that it has: while it waits, and when it is answered."""
    operation = schema["paths"]["/operations/{ref}/"]["get"]
    assert operation["responses"]["200"]["content"][JSON]["schema"] == ref("EffectsOperationStatus")
    waiting = send("/declared/api/", do="ask")
    assert waiting.status_code == 202
    send("/transactional/api/", "other", name="x")
    answered = send(f"/operations/{Request.objects.get(key='other').pk}/", None, method="GET")
    component = schema["components"]["schemas"]["EffectsOperationStatus"]
    assert set(component["properties"]) == {*waiting.json(), *answered.json()}
    assert set(component["required"]) == set(waiting.json()) & set(answered.json()) - {"status_url"}


def test_the_api_is_in_the_schema(schema: dict[str, Any]) -> None:
    """What it takes, what it answers, its problems; proposing needs a key as any protected view does."""
    paths, components = schema["paths"], schema["components"]["schemas"]
    propose = paths["/effects/proposals/"]["post"]
    assert parameter(propose)["required"] is True
    assert propose["requestBody"]["content"][JSON]["schema"] == ref("ProposalRequest")
    assert propose["responses"]["201"]["content"][JSON]["schema"] == ref("EffectsProposal")
    assert "`payload_invalid`" in propose["responses"]["400"]["description"]
    refused = propose["responses"]["400"]["content"][PROBLEM]["schema"]
    assert {"request_invalid", "payload_invalid", "idempotency_key_missing", "parse_error"} <= codes_of(refused)
    # a project's own permissions and authenticators may refuse with any code
    assert propose["responses"]["403"]["content"][PROBLEM]["schema"] == ref("EffectsProblem")
    vote = paths["/effects/approvals/{approval_id}/vote/"]["post"]
    assert "`stale_revision`" in vote["responses"]["409"]["description"]
    assert parameter(vote) is None
    listed = paths["/effects/approvals/"]["get"]
    assert {it["name"] for it in listed["parameters"]} == {"cursor", "page_size"}
    assert listed["responses"]["200"]["content"][JSON]["schema"] == ref("EffectsApprovalPage")
    assert components["EffectsProposal"]["properties"]["state"] == ref("EffectsExecutionState")
    assert set(components["EffectsExecutionState"]["enum"]) == {str(word) for word in ExecutionState}
    assert "304" in paths["/effects/proposals/{ref}/"]["get"]["responses"]


def test_nothing_imports_the_extension_where_drf_spectacular_is_no_app() -> None:
    """The library starts without it, and without REST framework."""
    code = (
        "import sys, django\n"
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django.contrib.auth', 'django.contrib.contenttypes', 'effects'],\n"
        "                   DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'x'}})\n"
        "django.setup()\n"
        "import effects.urls\n"
        "print([name for name in sys.modules if name.partition('.')[0] in {'drf_spectacular', 'rest_framework'}])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
