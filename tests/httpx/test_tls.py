"""The same over TLS: what a handshake proves, and that writing has the one deadline there, too."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from effects.contrib.httpx import ApiRequest
from effects.vocabulary.failures import Doubt, NotSent
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, monotonic
from tests.httpx.conftest import asking, context_for, declared, fails, trusting
from tests.stripe.scripted import Scripted


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that no authority signed, with its key beside it."""
    made = tmp_path_factory.mktemp("tls")
    command = [
        shutil.which("openssl") or pytest.skip("makes its certificate with openssl, which is not installed"),
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost", "-keyout", str(made / "key.pem"), "-out", str(made / "cert.pem"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return made / "cert.pem"


@contextmanager
def over_tls(certificate: Path, answer: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one connection over TLS; without an answer nothing of it is read. Yields URL and what was heard."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    heard: list[bytes] = []
    over = threading.Event()

    def serve_one() -> None:
        plain, _ = server.accept()
        with plain, context.wrap_socket(plain, server_side=True) as secure:
            if answer is None:
                over.wait(10)
                return
            while b"amount" not in b"".join(heard):
                heard.append(secure.recv(65536))
            secure.sendall(answer)

    def quietly() -> None:
        with suppress(OSError):  # the client did not like the certificate, or hung up
            serve_one()

    with socket.create_server(("localhost", 0)) as server:
        thread = threading.Thread(target=quietly)
        thread.start()
        try:
            yield f"https://localhost:{server.getsockname()[1]}", heard
        finally:
            over.set()
            thread.join()


def test_over_tls(certificate: Path, permit: Callable) -> None:
    """An effect may bring the authorities by which it knows its provider."""
    answer = b'HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{"id":"t-1"}'
    with over_tls(certificate, answer) as (url, heard):
        effect = declared(url=url, allow_http=False, tls=lambda self: trusting(certificate))
        allowed = permit()
        assert effect.send(context_for(allowed), allowed) == Applied({"id": "t-1"}, "t-1")
    assert b"".join(heard).startswith(b"POST /transfers HTTP/1.1\r\n")


def test_a_body_that_ends_with_the_connection_alone_is_not_whole(certificate: Path, permit: Callable) -> None:
    """Whoever is between can cut a connection; TLS says when the server itself ended it."""
    with over_tls(certificate, b'HTTP/1.1 201 Created\r\n\r\n{"id":"t-1"}') as (url, _heard):
        found = fails(declared(url=url, allow_http=False, tls=lambda self: trusting(certificate)), permit())
    assert isinstance(found, Doubt)
    assert found.reason is ExecutionReason.NO_REPLY


def test_a_certificate_that_nobody_vouches_for(certificate: Path, permit: Callable) -> None:
    """A handshake that fails proves that nothing was sent."""
    with over_tls(certificate, b"") as (url, heard):
        found = fails(declared(url=url), permit())
    assert isinstance(found, NotSent)
    assert "certificate" in found.message
    assert heard == []


def test_no_tls_there(api: Scripted, permit: Callable) -> None:
    """The same of a server that speaks none."""
    assert isinstance(fails(declared(url=api.url.replace("http:", "https:")), permit()), NotSent)
    assert api.seen == []


def test_a_handshake_without_end(permit: Callable) -> None:
    """A server that takes the connection and says nothing is left at the deadline, and nothing was sent."""
    with socket.create_server(("localhost", 0)) as server:
        started = monotonic()
        found = fails(declared(url=f"https://localhost:{server.getsockname()[1]}"), permit(0.5))
    assert isinstance(found, NotSent)
    assert 0.4 < monotonic() - started < 1.5


def test_a_body_that_nobody_reads_over_tls(certificate: Path, permit: Callable) -> None:
    """Writing over TLS has the one deadline, too."""
    with over_tls(certificate, None) as (url, _):
        asked = ApiRequest("POST", url, content=b"x" * 50_000_000)
        effect = asking(url, asked, tls=lambda self: trusting(certificate))
        started = monotonic()
        found = fails(effect, permit(0.5))
        assert 0.4 < monotonic() - started < 1.5
    assert isinstance(found, Doubt)
    assert found.reason is ExecutionReason.TIMEOUT
