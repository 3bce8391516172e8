"""Keys and signed tokens of a provider that tests play, and of one that forges them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
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
