"""Keys and signed tokens of a provider that tests play, and of one that forges them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm, get_default_algorithms

NOW = 1_800_000_000.0
ISSUER = "https://login.example"
AUDIENCE = "dragoman"


@cache
def private_key(name: str) -> Any:
    """Return a key by its name, the same each time: `rsa`, `rsa-1024`, `p256`, ...; `rsa/2` is another one."""
    kind = name.partition("/")[0]
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind.partition("-")[2] or 2048))
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    if kind == "ed448":
        return ed448.Ed448PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1() if kind == "p256" else ec.SECP384R1())


def jwk(name: str, **members: Any) -> dict[str, Any]:
    """Return the public key as a member of a JWK set, with further members."""
    kind = name.partition("/")[0]
    public = private_key(name).public_key()
    algorithm: Any = RSAAlgorithm if kind.startswith("rsa") else OKPAlgorithm if kind.startswith("ed") else ECAlgorithm
    made = {key: value for key, value in algorithm.to_jwk(public, as_dict=True).items() if key != "key_ops"}
    return {**made, **members}


def claims(**changed: Any) -> dict[str, Any]:
    """Return the claims of a good token; a value of None takes a claim out."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 600}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encode(header: Any, body: Any) -> str:
    """Return the signed part of a token; bytes are taken as they are."""
    parts = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, body))
    return ".".join(map(base64url, parts))


def sign(header: Any, body: Any, key: str, alg: str | None = None) -> str:
    """Return a token that is signed with a key, by the algorithm of its header unless another is named."""
    text = encode(header, body)
    named = alg or header["alg"]
    algorithm = get_default_algorithms()["EdDSA" if named == "Ed25519" else named]
    return f"{text}.{base64url(algorithm.sign(text.encode(), private_key(key)))}"


def sign_with_secret(header: Any, body: Any, secret: bytes) -> str:
    text = encode(header, body)
    return f"{text}.{base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def good(key: str = "rsa", alg: str = "RS256", kid: str = "k1", **changed: Any) -> str:
    """Return a good token, with changed claims."""
    return sign({"alg": alg, "kid": kid, "typ": "at+jwt"}, claims(**changed), key)


class PlayedProvider:
    """A provider on loopback that answers with two documents, and can be made to fail."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys: list[dict[str, Any]] = [jwk("rsa", kid="k1", use="sig", alg="RS256")]
        self.document: dict[str, Any] = {}
        self.status = 200
        self.asked: list[str] = []
        self.hold: asyncio.Event | None = None
        """Answers wait for it."""
        self.held = asyncio.Event()
        self._server: asyncio.Server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        if self.hold is not None:
            self.held.set()
            await self.hold.wait()
        if path.startswith("/.well-known/"):
            found = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **self.document}
        else:
            found = {"keys": self.keys}
        body = json.dumps(found).encode()
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (self.status, len(body)))
        writer.write(body)
        await writer.drain()
        writer.close()

    @classmethod
    @asynccontextmanager
    async def run(cls) -> AsyncIterator[PlayedProvider]:
        played = cls()
        played._server = await asyncio.start_server(played._answer, "127.0.0.1", 0)
        played.issuer = f"http://127.0.0.1:{played._server.sockets[0].getsockname()[1]}"
        try:
            yield played
        finally:
            played._server.close()
            await played._server.wait_closed()

    def token(self, kid: str = "k1", key: str = "rsa", **changed: Any) -> str:
        """Return a good token of this provider that is valid for some minutes."""
        now = time.time()
        return good(key, kid=kid, **{"iss": self.issuer, "exp": now + 600, "iat": now, "nbf": now, **changed})
