"""A certificate for 127.0.0.1 and the authority that signed it, made for one run of the tests."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from tests import machine


class Certificates:
    """Files of an authority and of a server."""

    def __init__(self, folder: Path) -> None:
        if machine.program("openssl") is None:
            pytest.skip("the tests of TLS make a certificate with openssl, which is not installed")
        self.authority = str(folder / "authority.pem")
        self._certificate, self._key = str(folder / "server.pem"), str(folder / "server.key")
        authority_key, request, names = (str(folder / name) for name in ("authority.key", "request.pem", "names"))
        Path(names).write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        _openssl("req", "-x509", *curve, "-keyout", authority_key, "-out", self.authority, "-subj", "/CN=tests", *usage)
        _openssl("req", *curve, "-keyout", self._key, "-out", request, "-subj", "/CN=127.0.0.1")
        signer = ("-CA", self.authority, "-CAkey", authority_key, "-set_serial", "1", "-days", "2")
        _openssl("x509", "-req", "-in", request, *signer, "-extfile", names, "-out", self._certificate)

    def server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, self._key)
        return context


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=30)
