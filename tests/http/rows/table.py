"""The rows of the HTTP contract: number and situation. Each has at least one test in this package."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS: dict[int, str] = {
    1: "first use of a key",
    2: "retry after completion, same identity",
    3: "key missing: required / optional view",
    4: "key empty, blank, over 255, non-ASCII, control characters, NUL, a list, two header lines, broken quoting",
    5: '`"K"` quoted and `K` bare; unknown structured-field parameters',
    6: (
        "same key, other method, path, URL argument, query, body or media type: when stored, while in "
        "flight, and after losing the insert race"
    ),
    7: "same key, same caller, another decorated operation",
    8: "same key, other user or tenant",
    9: "anonymous caller",
    10: "the first is still running",
    11: "owner dead in a view that declares `performs=`, nothing linked was or can be sent",
    12: "owner dead after an attempt may have been sent",
    13: "settled later: applied / not applied / refused by people / closed by a person",
    14: "4xx after the claim",
    15: "authentication, permission, throttle, parser, negotiation or routing failed",
    16: (
        "unhandled exception, a 5xx built by a custom exception handler, a database error swallowed by "
        "the handler and answered with 200"
    ),
    17: "replay asked by someone whose access was revoked since",
    18: "answer past retention, key kept",
    19: "key past its own retention",
    20: "database down, lock wait over at the claim",
    21: "body unreadable (client hung up) or too large to fingerprint",
    22: "streaming or file response, or larger than the limit",
    23: "GET, HEAD, OPTIONS with the header",
    24: "other `Accept` on the retry",
    25: (
        "Set-Cookie, WWW-Authenticate, Date, trace ids, rate-limit, CORS, hop-by-hop, Content-Encoding, Content-Length"
    ),
    26: "client disconnects, `CancelledError`, SystemExit, SIGTERM",
    27: "`ATOMIC_REQUESTS` on",
    28: "decorated twice, or under the wrong decorator",
    29: "APIView method, ViewSet action, `@api_view`, plain view, async view, `method_decorator`",
    30: "the fingerprint's definition changed by a deploy",
    31: "JSON bodies equal but for key order, white space, trailing newline",
    32: "numbers: `1` and `1.0`; integers beyond 2^53",
    33: "multipart retried with a new boundary",
    34: "a volatile field (a fresh token) in the body",
    35: "204 and empty bodies",
    36: "the handler changes `request.data`",
    37: "something read the body or `request.data` before (a permission class, a middleware)",
    38: "100 identical requests at one instant",
    39: "a request slower than every timeout in the system (within `HANDLER_MAX`), retried every second",
    40: "SIGKILL at each point of the request",
    41: "gzip, conditional GET and CORS middleware around the view",
    42: "two databases, a router, tests inside TestCase",
    43: "an opaque view calls the provider directly; SIGKILL, timeout or 5xx after the call",
    44: (
        "the child of a request awaits an approver; the handler returned 202; an hour passes; or a bug "
        "raises after `perform`"
    ),
    45: "two equal `perform` of one effect in one request without keys",
    46: "handler lost after one of its effects completed",
    47: "browsable API (HTML) answers, CSRF token inside",
    48: "`perform_later` in a transactional view",
    49: "client told `safe_new_key: true`",
    50: "`require()` raises in the middle of a handler, more work was to come after it",
    51: "opaque view: one `perform` and one direct call, then SIGKILL",
}
