"""What must not be written: the project's `REDACTOR`, and the marks of secrets in canonical JSON.

The redactor sees every text before it is stored or digested. In a payload it can only refuse: what is recorded is
exactly what is sent, and a redacted payload could not be sent by a worker. A field that must not be recorded is a
`Secret`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.conf import settings as django_settings
from django.utils.crypto import salted_hmac

from effects.conf import settings
from effects.vocabulary import canonical, cleaning
from effects.vocabulary.exceptions import PayloadError
from effects.vocabulary.foreign import hold_interrupt, present_try
from effects.vocabulary.secrets import MASK, Secret

__all__ = [
    "blank",
    "hiding",
    "install",
    "is_redacting",
    "known_keys",
    "marker",
    "redact",
    "redact_output",
    "redact_value",
    "refuse_redactable",
    "seal",
]

# Not from `get_logger`, whose records are cleaned by the functions of this module; it says names of types alone.
log = logging.getLogger("effects.redaction")

_SALT = "effects.secret"
#: Hexadecimal digits of a mark: 128 bits, so that no two secrets meet by accident. Guessing needs the key in any case.
_MARK = 32
#: Hexadecimal digits that say which key made it.
_KEY_NAME = 8
#: A shorter secret is not searched for in texts: it would be found in half of them.
SHORTEST_HIDDEN = 6
_DEEPEST = 64
_STORABLE = str.maketrans({"\x00": None, **{chr(code): "\ufffd" for code in range(0xD800, 0xE000)}})


#: The texts of the secrets that the present call works with.
_hidden: ContextVar[tuple[str, ...]] = ContextVar("effects_hidden", default=())


def install() -> None:
    """Let every text that is cleaned go through the project's redactor; called once, at start-up."""
    cleaning.use_redactor(redact)


@contextmanager
def hiding(payload: object) -> Iterator[None]:
    """Mask the secrets of a payload in every text that is written within the block: a provider may repeat them.

    Only as they are, in secrets of at least 6 characters; an encoded form is not recognised.
    """
    found = {secret.reveal() for secret in _secrets(payload, 0) if secret.mark is None}
    texts = sorted((text for text in found if len(text) >= SHORTEST_HIDDEN), key=len, reverse=True)
    token = _hidden.set((*texts, *_hidden.get()))
    try:
        yield
    finally:
        _hidden.reset(token)


def is_redacting() -> bool:
    """Return whether texts may be changed before they are written."""
    return bool(_hidden.get()) or settings.REDACTOR is not None


def redact(text: str, place: str) -> str:
    """Return what may be written of a text; nothing of it where the project's redactor raises.

    Args:
        text: any text on its way into the journal or a log.
        place: "payload", "output", "reference" (a provider's id) or "text" (all else).
    """
    for secret in _hidden.get():
        text = text.replace(secret, MASK)
    redactor = settings.REDACTOR
    if redactor is None or not text:
        return text
    tried = present_try()
    if tried is None:
        return _redacted(redactor, text, place)
    # asked once: if it broke our transaction, what it said is known when that is written again
    if (text, place) not in tried.redacted:
        tried.redacted[text, place] = "[redacted: the REDACTOR was cut short]"
        tried.redacted[text, place] = _redacted(redactor, text, place)
    return tried.redacted[text, place]


def _redacted(redactor: Callable[[str, str], str], text: str, place: str) -> str:
    try:
        redacted: Any = redactor(text, place)
    except BaseException as error:  # noqa: BLE001 - the project's code; its message may hold what it was to redact
        hold_interrupt(error)
        log.error("The REDACTOR raised %.100r; the whole text is left out.", type(error).__name__)
        return "[redacted: the REDACTOR raised]"
    if not isinstance(redacted, str):
        log.error("The REDACTOR returned %.100r instead of a str; the whole text is left out.", type(redacted).__name__)
        return "[redacted: the REDACTOR returned no text]"
    return redacted if redacted == text else redacted.translate(_STORABLE)


def refuse_redactable(payload: object) -> None:
    """Refuse a payload in which a text would be redacted.

    Args:
        payload: as `canonical.round_trip` returns it.

    Raises:
        PayloadError: its path names the first such text.
    """
    if not is_redacting():
        return
    for path, text in _texts(payload, "$"):
        if redact(text, "payload") != text:
            raise PayloadError(
                "this holds a secret, or the project's REDACTOR would not let it be recorded, and what is recorded is "
                "what is sent; make it an effects.Secret, or let the REDACTOR pass it in the place 'payload'.",
                path=path,
            )


def redact_output(value: Any) -> Any:
    """Return an output, as loaded JSON, with every text in it redacted, names included."""
    return redact_value(value, "output")


def redact_value(value: Any, place: str) -> Any:
    """Return loaded JSON with every text in it redacted as in a place of the journal, names included."""
    if not is_redacting():
        return value
    if isinstance(value, str):
        return redact(value, place)
    if isinstance(value, list):
        return [redact_value(item, place) for item in value]
    if isinstance(value, dict):
        # names that are redacted alike stay as many
        result: dict[str, Any] = {}
        alike: dict[str, int] = {}
        for name, item in value.items():
            result[cleaning.free_name(redact(name, place), result, alike)] = redact_value(item, place)
        return result
    return value


def seal(payload: object, binding: str) -> tuple[str, bool]:
    """Return the canonical text of a payload, its secrets marked, and whether a secret in it is here to be sent."""
    mark, here = marker(binding), []

    def count(secret: Secret) -> str:
        here.append(secret)
        return mark(secret)

    return canonical.dump(payload, mark=count), bool(here)


def marker(binding: str, key: str | bytes | None = None) -> canonical.Marker:
    """Return the function that marks the secrets of one execution's payload.

    A mark is an HMAC-SHA256 under a key that Django's `SECRET_KEY` gives, over the execution's binding and the text:
    the same secret gives the same mark for a retry and another one for every other execution, and who reads the table
    can check no guess.

    Args:
        binding: the execution's.
        key: one of `SECRET_KEY` and `SECRET_KEY_FALLBACKS`; the first by default.
    """
    key = django_settings.SECRET_KEY if key is None else key
    name = _name_of(key)

    def mark(secret: Secret) -> str:
        text = secret.reveal().encode("utf-8", "surrogatepass")
        return f"{name}:{salted_hmac(f'{_SALT}.{binding}', text, secret=key, algorithm='sha256').hexdigest()[:_MARK]}"

    return mark


def known_keys() -> Sequence[str | bytes]:
    """Return the keys that marks can be checked under: `SECRET_KEY` and its fallbacks."""
    return [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]


def blank(text: str) -> str | None:
    """Return a canonical text with the marks of forgotten keys left blank; None where all its marks can be checked."""
    known, forgotten = {_name_of(key) for key in known_keys()}, []

    def unmark(mark: str) -> Secret:
        if mark.partition(":")[0] in known:
            return Secret.gone(mark)
        forgotten.append(mark)
        return Secret.gone("")

    blanked = canonical.dump(canonical.load(text, unmark=unmark))
    return blanked if forgotten else None


def _name_of(key: str | bytes) -> str:
    return salted_hmac(f"{_SALT}.key", b"", secret=key, algorithm="sha256").hexdigest()[:_KEY_NAME]


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if redact(name, "payload") != name:
                yield f"{path}.{MASK}", name
            yield from _texts(item, f"{path}.{name}")


def _secrets(value: object, depth: int) -> Iterator[Secret]:
    """Yield the secrets of a payload as a caller wrote it; what cannot be recorded is refused elsewhere."""
    members: Any = ()
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        members = value.values()
    elif isinstance(value, (list, tuple)):
        members = value
    elif dataclasses.is_dataclass(value):
        members = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if depth < _DEEPEST:
        for member in members:
            yield from _secrets(member, depth + 1)
