"""TLS towards the target: whom to trust, and who we are."""

from __future__ import annotations

import ssl

from loadgen.errors import UsageError
from loadgen.replay.target import Target


def tls_context(target: Target) -> ssl.SSLContext | None:
    """The context for connections to `target`; None where it speaks no TLS.

    Raises UsageError for a client certificate that cannot be used.
    """
    if target.scheme != "https":
        return None
    context = ssl.create_default_context()
    if not target.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.client_cert is not None:
        certificate, key = target.client_cert
        try:
            context.load_cert_chain(certificate, key)
        except OSError as exc:
            raise UsageError(
                f"--cert {certificate}: cannot be used ({exc.strerror or exc})",
                hint="give PEM files; --cert-key where the key is in a file of its own, without a passphrase",
            ) from exc
    return context
