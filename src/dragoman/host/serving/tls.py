"""The certificate of a served host."""

from __future__ import annotations

import ssl

from dragoman.errors import ConfigError


def server_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Load TLS with a certificate chain and its key, both PEM files; None without them.

    Raises:
        ConfigError: a file cannot be used.
    """
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise ConfigError(f"the certificate {certificate} and the key {key} cannot be used together ({why})") from None
    except OSError as error:
        raise ConfigError(f"cannot read the certificate or its key ({error.strerror}): {certificate}, {key}") from None
    return context


def _no_password() -> str:
    raise ConfigError("the key of the certificate has a password; give one without, readable by its owner only")
