"""TLS: certificates are checked unless told otherwise."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from loadgen.testing import FakeTarget, chat_stream
from support import command, traces


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """A server's context with a certificate that nobody signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made


def test_an_unknown_certificate_is_refused_and_accepted_only_when_told(
    context: ssl.SSLContext, tmp_path: Path
) -> None:
    trace = traces.written(tmp_path, [0.0, 0.1, 0.2])
    with FakeTarget(lambda _: chat_stream(2), tls=context) as fake:
        refused = command.run("replay", trace, "--url", fake.url, "--out-dir", tmp_path / "a")
        accepted = command.run("replay", trace, "--url", fake.url, "--out-dir", tmp_path / "b", "--insecure")
    assert refused.returncode == 5
    assert "certificate" in refused.stderr.lower()
    assert "Traceback" not in refused.stderr
    assert accepted.returncode in (0, 4), accepted.stderr
    assert "3 ok" in accepted.stdout
