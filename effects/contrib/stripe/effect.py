"""What Stripe's effects share: one request under the permit's key, and a look-up by listing.

Every object that we create carries the provider key in its metadata. A look-up lists the objects that could be ours
and compares that mark. It never uses Stripe's search, which lags behind and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, TypeVar

import stripe

from effects.contrib.stripe.client import check_client, dashboard_url, get_client
from effects.contrib.stripe.proofs import hindrance, proven
from effects.contrib.stripe.transport import until
from effects.declarations.effect import Effect
from effects.vocabulary.failures import Declined, Doubt, SendError
from effects.vocabulary.types import (
    Applied,
    Context,
    Deduplication,
    Eventual,
    Lookup,
    Permit,
    SendResult,
    Submitted,
    monotonic,
)
from effects.vocabulary.verdicts import Absent, Conflict, Found, Inconclusive, InProgress, ProvenFailed, Verdict

__all__ = ["KEY_MARK", "REF_MARK", "Standing", "StripeEffect", "as_dict", "money_difference"]

P = TypeVar("P")

#: The metadata that our objects carry: the provider key, by which a look-up knows them, and the execution.
KEY_MARK, REF_MARK = "effects_key", "effects_ref"
PAGE = 100


class Standing(Enum):
    """What an object's status says of what was asked for."""

    DONE = "done"
    UNDER_WAY = "under way"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class _TooManyError(Exception):
    """There is more to look through than a look-up may."""


class StripeEffect(Effect[P]):
    """A call that creates one object at Stripe. Subclass `CreateRefund` or `CreatePaymentIntent`, or write your own.

    `lookup` is `Eventual`: Stripe's lists show what was created, but no document promises when. `deduplicates` is what
    Stripe attests of its keys; set it to None for a substitute that ignores them.

    Attributes:
        max_pages: how many pages of 100 objects a look-up reads before it gives up as inconclusive.
        dashboard: the section of Stripe's dashboard that shows such an object; empty: none does.
        creates: what Stripe calls such an object, in its member `object`; empty: no webhook is about it.
    """

    provider: ClassVar[str] = "stripe"
    lookup: ClassVar[Lookup | None] = Eventual(quiet=timedelta(minutes=5))
    deduplicates: ClassVar[Deduplication | None] = Deduplication(lifetime=timedelta(hours=24))
    max_pages: ClassVar[int] = 20
    dashboard: ClassVar[str] = ""
    creates: ClassVar[str] = ""

    def client(self, context: Context[P]) -> stripe.StripeClient:  # noqa: ARG002 - a project's may need it
        """Return the client to call: that of the settings' own account, unless a project says otherwise.

        One of `get_client`; any other is refused before something is sent.
        """
        return get_client()

    def parameters(self, context: Context[P]) -> dict[str, Any]:
        """Return what is asked for, in Stripe's words; a project may add to it."""
        raise NotImplementedError

    def create(self, client: stripe.StripeClient, params: Any, options: Any) -> object:
        """Make the request, with this client and these options. A second one that changes something is not sent."""
        raise NotImplementedError

    def candidates(self, client: stripe.StripeClient, context: Context[P]) -> Iterator[dict[str, Any]]:
        """Iterate over the objects at Stripe that could be the one that was asked for."""
        raise NotImplementedError

    def standing(self, payload: P, found: dict[str, Any]) -> Standing:
        """Return what the object's status says of what was asked for."""
        raise NotImplementedError

    def difference(self, payload: P, found: dict[str, Any]) -> str:
        """Return in words what of the object is not as it was asked for; "" where nothing is."""
        raise NotImplementedError

    def undone(self, payload: P, found: dict[str, Any]) -> bool:
        """Return whether the object can be no success any more: a webhook says so of what is completed.

        True for each state of the object that only follows a success, or rules one out for ever; False for those that
        a later success may follow, since webhooks come out of order.
        """
        return self.standing(payload, found) is Standing.REFUSED

    def refusal(self, found: dict[str, Any]) -> tuple[str, str]:
        """Return code and message of an object that was refused."""
        return str(found.get("status")), ""

    def output(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what is kept of the object, and what `require()` returns."""
        return {name: found.get(name) for name in ("id", "status", "amount", "currency")}

    def send(self, context: Context[P], permit: Permit) -> SendResult:
        """Create the object, in one request under the permit's key.

        Raises:
            SendError: see `proofs` and `transport` for what each failure proves.
        """
        asked = self.parameters(context)
        marks = {KEY_MARK: permit.provider_key, REF_MARK: context.ref}
        params = {**asked, "metadata": {**asked.get("metadata", {}), **marks}}
        with until(permit.deadline, once=True), proven():
            client = check_client(self.client(context))
            answer = self.create(client, params, {"idempotency_key": permit.provider_key})
        found = as_dict(answer)
        reference, difference = str(found["id"]), self.difference(context.payload, found)
        if difference:
            raise Doubt(f"Stripe answered with {difference}", code="answer_differs", reference=reference)
        match self.standing(context.payload, found):
            case Standing.DONE:
                return Applied(output=self.output(found), reference=reference)
            case Standing.UNDER_WAY:
                return Submitted(reference=reference)
            case Standing.REFUSED:
                code, message = self.refusal(found)
                raise Declined(message, code=code, reference=reference)
        raise Doubt(f"Stripe answered with status {found.get('status')!r}", code="status", reference=reference)

    def verify(self, context: Context[P]) -> Verdict:
        """Look through what could be ours for the object that carries our key."""
        seen, ours = 0, []
        try:
            with until(monotonic() + self.request_timeout.total_seconds()):
                for found in self.candidates(check_client(self.client(context)), context):
                    seen += 1
                    if (found.get("metadata") or {}).get(KEY_MARK) == context.provider_key:
                        ours.append(found)
        except _TooManyError:
            return Inconclusive(f"more than {seen} objects to look through", {"listed": seen})
        except (stripe.StripeError, SendError) as error:
            return hindrance(error)
        if not ours:
            return Absent({"listed": seen})
        if len(ours) > 1:
            found_ids = [str(found["id"]) for found in ours]
            return Conflict(f"{len(ours)} objects carry one key", ", ".join(found_ids), {"references": found_ids})
        return self._judge(context.payload, ours[0])

    def provider_url(self, reference: str, *, tenant: str) -> str:  # noqa: ARG002 - one account; a project may have more
        """Return where Stripe's dashboard shows the object."""
        return dashboard_url(self.dashboard, reference) if self.dashboard else ""

    def pages(self, fetch: Callable[[Any], object], filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Iterate over a list at Stripe to its end, page by page."""
        after: dict[str, Any] = {}
        for _ in range(self.max_pages):
            page = as_dict(fetch({**filters, **after, "limit": PAGE}), needs="data")
            yield from page["data"]
            if not page.get("has_more"):
                return
            after = {"starting_after": page["data"][-1]["id"]}
        raise _TooManyError

    def _judge(self, payload: P, found: dict[str, Any]) -> Verdict:
        reference, difference = str(found["id"]), self.difference(payload, found)
        proof = {name: found.get(name) for name in ("id", "status", "amount", "currency", "created")}
        if difference:
            return Conflict(f"Stripe has {difference}", reference, proof)
        match self.standing(payload, found):
            case Standing.DONE:
                return Found(reference, output=self.output(found), proof=proof)
            case Standing.UNDER_WAY:
                return InProgress(reference, proof=proof)
            case Standing.REFUSED:
                code, message = self.refusal(found)
                return ProvenFailed(code, message, reference, proof)
        return Inconclusive(f"Stripe says {found.get('status')!r} of {reference}", proof)


def as_dict(answer: object, needs: str = "id") -> dict[str, Any]:
    """Return an answer of the SDK's as plain data.

    Raises:
        Doubt: it is not an object with that member, so it is not the answer to what we asked.
    """
    # what was on the wire: how the SDK's objects become plain data differs between its versions
    response = getattr(answer, "last_response", None)
    data = response.data if response is not None else None
    if not isinstance(data, dict) or data.get(needs) in (None, ""):
        raise Doubt("the answer cannot be read", code="unreadable_answer")
    return data


def money_difference(amount: int, currency: str, found: dict[str, Any]) -> str:
    """Return the object's amount in words where it is not the one that was asked for."""
    if found.get("amount") == amount and str(found.get("currency")).lower() == currency:
        return ""
    return f"{found.get('amount')} {found.get('currency')} instead of {amount} {currency}"
