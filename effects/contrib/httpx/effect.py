"""`CallApi`: one request to an HTTP API under the permit's key, and what its answer proves."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import httpx

from effects.contrib import statuses
from effects.contrib.httpx.message import ApiRequest, refusal_words, write
from effects.contrib.httpx.transport import default_tls, exchange
from effects.declarations.effect import Effect
from effects.vocabulary.exceptions import EffectDefinitionError
from effects.vocabulary.failures import (
    Declined,
    Doubt,
    Forbidden,
    InvalidRequest,
    KeyReused,
    NotNow,
    NotSent,
    SendError,
    Stale,
    Unauthenticated,
    is_interrupt,
    parse_retry_after,
)
from effects.vocabulary.types import Applied, Context, Permit, SendResult, Submitted, monotonic
from effects.vocabulary.verdicts import Inconclusive, Unreachable, Verdict

__all__ = ["CallApi"]

P = TypeVar("P")

#: What a status can be declared to prove.
_PROOFS = (Declined, InvalidRequest, Unauthenticated, Forbidden, Stale, NotNow, KeyReused, Doubt)
#: A look-up changes nothing (RFC 9110 §9.2.1).
_SAFE = frozenset({"GET", "HEAD"})
#: Permits under which the request was made; one that nobody has any more is forgotten.
_used: WeakSet[Permit] = WeakSet()


class CallApi(Effect[P]):
    """A call of an HTTP API. Subclass it with the payload's type, say what is asked for, and register it.

    `operation`, `provider` and `request` are required. With `look_up_request`, `verdict` and `lookup` it can be looked
    up. `deduplicates` stays None until the provider's own documents say that its keys work, and for how long.

    Attributes:
        key_header: the header that carries the provider key; None where the provider knows none. `request` may put
            `context.provider_key` into the body as well, for look-ups to find.
        proves: status → what it proves at this provider, over the table in `effects.contrib.statuses`, as in
            `{503: effects.NotNow}` where a 503 is always a refusal, or `{422: effects.KeyReused}` where it says that
            the key came with other contents.
        reference_field: the member of the answer's JSON that is the provider's id of what was done; empty: none.
        allow_http: whether requests may go out without TLS.
        max_answer_bytes: the longest answer that is read; a longer one is doubt.
    """

    key_header: ClassVar[str | None] = "Idempotency-Key"
    proves: ClassVar[Mapping[int, type[SendError]]] = {}
    reference_field: ClassVar[str] = ""
    allow_http: ClassVar[bool] = False
    max_answer_bytes: ClassVar[int] = 1024 * 1024

    def __init__(self) -> None:
        _check(type(self))

    # -- what a project says -------------------------------------------------------------------------------------

    def request(self, context: Context[P]) -> ApiRequest:
        """Return the one request. Called just before it is sent, and sends nothing itself.

        What it raises is `NotSent`, unless it is a `SendError`: it is called again, as `retry` says.
        """
        raise NotImplementedError

    def result(self, context: Context[P], answer: httpx.Response) -> SendResult:  # noqa: ARG002 - a project's needs it
        """Return what a 2xx answer says: 202 is `Submitted`, 200 and 201 with a JSON body and 204 are `Applied`.

        Raises:
            SendError: what the answer proves, where it is no success in spite of its status.
            ValueError: it cannot be read; that is doubt.
        """
        if answer.status_code == httpx.codes.NO_CONTENT:
            return Applied()
        if answer.status_code == httpx.codes.ACCEPTED:
            return Submitted(self._reference(answer.json()) if answer.content else "")
        if answer.status_code not in (httpx.codes.OK, httpx.codes.CREATED):
            raise Doubt(f"the answer has status {answer.status_code}", code=f"http_{answer.status_code}")
        said = answer.json()
        return Applied(output=said, reference=self._reference(said))

    def refusal(self, context: Context[P], answer: httpx.Response) -> SendError:  # noqa: ARG002 - as above
        """Return what an answer that is no 2xx proves: by its status alone, unless a project reads more."""
        code, message = refusal_words(answer)
        return statuses.failure(
            answer.status_code, message, code=code, proof={**statuses.PROOF, **self.proves},
            retry_after=parse_retry_after(answer.headers.get("Retry-After")),
        )  # fmt: skip

    def look_up_request(self, context: Context[P]) -> ApiRequest:
        """Return the GET that looks up what became of it."""
        raise NotImplementedError

    def verdict(self, context: Context[P], answer: httpx.Response) -> Verdict:
        """Return what a 2xx answer to the look-up says. Say `Absent` only of a list that cannot miss it."""
        raise NotImplementedError

    def not_found(self, context: Context[P], answer: httpx.Response) -> Verdict:  # noqa: ARG002 - as above
        """Return what a 404 to the look-up says: nothing, because a wrong address has the same answer.

        Return `Absent()` where the provider promises that 404 means "never heard of it, accepted orders included".
        """
        _, message = refusal_words(answer)
        return Inconclusive(f"the look-up was answered 404, which may mean anything: {message}", {"status": 404})

    def tls(self) -> ssl.SSLContext:
        """Return how servers are known; a project may bring its own authorities, or a client certificate."""
        return default_tls()

    # -- what it does with it ------------------------------------------------------------------------------------

    def send(self, context: Context[P], permit: Permit) -> SendResult:
        """Make the request, once, under the permit's key and within its time.

        Raises:
            SendError: see `effects.contrib.statuses` and `transport` for what each failure proves.
        """
        try:
            asked = self.request(context)
        except SendError:
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
            raise NotSent(f"request() raised {type(error).__name__}: {error}", code="request") from error
        return self.answered(context, self.call(asked, permit))

    def call(self, asked: ApiRequest, permit: Permit) -> httpx.Response:
        """Make one request under a permit, for a `compensate` of the project's; `answered` reads what it returns.

        Raises:
            Doubt: the permit's one request was made before; this one is not.
        """
        if permit in _used:
            raise Doubt("one permit is one request, and it was sent; a second one was not", code="second_request")
        _used.add(permit)
        key = {} if self.key_header is None else {self.key_header: permit.provider_key}
        return self._exchange(asked, permit.deadline, key)

    def answered(self, context: Context[P], answer: httpx.Response) -> SendResult:
        """Return what an answer says.

        Raises:
            SendError: what it proves, where it is no success.
        """
        if not answer.is_success:
            raise self.refusal(context, answer)
        try:
            return self.result(context, answer)
        except ValueError as error:
            raise Doubt(f"the answer cannot be read: {error}", code="unreadable_answer") from error

    def verify(self, context: Context[P]) -> Verdict:
        """Make the look-up's request, and have its answer judged."""
        asked = self.look_up_request(context)
        if asked.method not in _SAFE:
            return Inconclusive(f"a look-up changes nothing: look_up_request() returns a GET, not a {asked.method}")
        try:
            answer = self._exchange(asked, monotonic() + self.request_timeout.total_seconds(), {})
        except SendError as error:
            return statuses.hindrance(error)
        return self._judged(context, answer)

    @classmethod
    def can_be_looked_up(cls) -> bool:
        """Return whether the class says how."""
        return cls.look_up_request is not CallApi.look_up_request or cls.verify is not CallApi.verify

    def _judged(self, context: Context[P], answer: httpx.Response) -> Verdict:
        status = answer.status_code
        if status == httpx.codes.NOT_FOUND:
            return self.not_found(context, answer)
        if not answer.is_success:
            _, message = refusal_words(answer)
            return (Unreachable if statuses.is_away(status) else Inconclusive)(message, {"status": status})
        try:
            return self.verdict(context, answer)
        except ValueError as error:
            return Inconclusive(f"the look-up's answer cannot be read: {error}", {"status": status})

    def _exchange(self, asked: ApiRequest, deadline: float, headers: Mapping[str, str]) -> httpx.Response:
        try:
            written = write(asked, headers)
        except (ValueError, TypeError, AttributeError, httpx.InvalidURL) as error:
            raise InvalidRequest(f"the request cannot be written: {error}", code="request") from error
        scheme = written.url.scheme
        if not written.url.host or not (scheme == "https" or (scheme == "http" and self.allow_http)):
            more = "; allow_http = True lifts that" if scheme == "http" else ""
            raise InvalidRequest(f"{asked.origin} is no https address, and nothing was sent{more}", code="no_https")
        return exchange(written, deadline=deadline, tls=self.tls(), limit=self.max_answer_bytes)

    def _reference(self, said: Any) -> str:
        found = said.get(self.reference_field) if self.reference_field and isinstance(said, dict) else None
        return str(found) if isinstance(found, (str, int)) else ""


def _check(cls: type[CallApi[Any]]) -> None:
    """Refuse a declaration that cannot work.

    Raises:
        EffectDefinitionError: the message says what to write.
    """

    def need(condition: bool, what: str) -> None:
        if not condition:
            raise EffectDefinitionError(f"{cls.__module__}.{cls.__qualname__}: {what}")

    need(cls.request is not CallApi.request or cls.send is not CallApi.send, "define request(self, context)")
    need(
        (cls.look_up_request is CallApi.look_up_request) == (cls.verdict is CallApi.verdict)
        or cls.verify is not CallApi.verify,
        "look_up_request() asks and verdict() reads the answer: define both, or neither",
    )
    need(
        cls.key_header is None or (isinstance(cls.key_header, str) and cls.key_header != ""),
        "key_header = 'Idempotency-Key' is the header for the provider key, or None where there is none",
    )
    need(isinstance(cls.allow_http, bool), "allow_http is True or False")
    need(
        isinstance(cls.max_answer_bytes, int) and cls.max_answer_bytes > 0,
        "max_answer_bytes = 1024 * 1024 is a number of bytes",
    )
    need(isinstance(cls.proves, Mapping), "proves = {503: effects.NotNow} says what a status proves")
    for status, proof in cls.proves.items():
        need(
            isinstance(status, int) and 300 <= status < 600,
            f"proves has {status!r:.40}, which is no status from 300 to 599; result() reads the others",
        )
        need(
            isinstance(proof, type) and issubclass(proof, _PROOFS),
            f"proves says {proof!r:.80} of {status}; it is one of {', '.join(kind.__name__ for kind in _PROOFS)}",
        )
