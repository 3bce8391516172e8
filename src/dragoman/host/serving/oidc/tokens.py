"""The decision whether a signed token of an OpenID Connect provider is valid: form, key, signature, claims.

Everything is checked here, on the bytes that were signed and in this order: size, three parts of strict base64url, JSON
without a member twice, the header, the key, the signature, the claims. Nothing in a token chooses where a key comes
from: `jku`, `x5u`, `jwk` and `x5c` are not looked at. The signature is computed by PyJWT, by one of `ALGORITHMS` and
with a key that is made for it. Pure: keys and time are given.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

MAX_TOKEN_BYTES: Final = 16 * 1024
"""Providers send 1 to 4 KiB, with many groups 8; the head of a request has room for 32."""
LEEWAY_SECONDS: Final = 30.0
"""How far the clocks of the provider and this machine may differ."""
_MAX_HEADER_BYTES: Final = 4 * 1024
_MAX_TEXT: Final = 1024
_MAX_AUDIENCES: Final = 64
_MOST_KEYS: Final = 64
_RSA_BITS: Final = range(2048, 8193)  # below it is weak; above, one signature costs milliseconds
_LATEST: Final = 253402300800.0  # the year 10000: what lies behind it is not a time

ALGORITHMS: Final[Mapping[str, tuple[str, str]]] = {
    "RS256": ("RSA", ""),
    "PS256": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""What a signature may be made with: the type of the key, and its curve. `none` and those with a shared secret, for
which a forger would take the public key, are not among them."""
_SAME: Final = {"Ed25519": "EdDSA"}  # the newer name of the same thing, RFC 9864
_TYPES: Final = frozenset(("jwt", "at+jwt", "application/jwt", "application/at+jwt"))
_OTHER_USES: Final = frozenset(("refresh", "offline", "logout"))
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_PRIVATE_MEMBERS: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))


class TokenRefused(Exception):
    """A token that is not valid.

    `is_proven` says that the provider has signed it: only then the sender may be given the reason.
    """

    def __init__(self, reason: str, *, is_proven: bool = False) -> None:
        super().__init__(reason)
        self.is_proven = is_proven


class UnknownKey(TokenRefused):
    """A token whose key is not among those of the provider; it may have made another one since."""


class SigningKey(NamedTuple):
    """A public key of the provider."""

    kid: str
    """Empty if it has none."""
    kty: str
    curve: str
    alg: str
    """The only algorithm that it is for; empty if the provider does not say."""
    public: Any
    """The key itself, as PyJWT takes it."""

    def fits(self, alg: str) -> bool:
        """Whether signatures of this algorithm are made with such a key."""
        kty, curve = ALGORITHMS[alg]
        is_for_it = not self.alg or _SAME.get(self.alg, self.alg) == _SAME.get(alg, alg)
        return is_for_it and self.kty == kty and (not curve or self.curve == curve)


class TokenTerms(NamedTuple):
    """What is asked of the claims of every token."""

    issuer: str
    audiences: frozenset[str]
    """One of them must be among those of the token."""


def read_keys(document: object) -> tuple[SigningKey, ...]:
    """Return the keys of a JWK set that signatures can be checked with; others are left out.

    Raises:
        ValueError: it is not a JWK set.
    """
    found = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise ValueError("it is not a JWK set: keys is missing")
    keys = []
    for members in found[:_MOST_KEYS]:
        if not isinstance(members, dict) or _PRIVATE_MEMBERS & members.keys():
            continue  # a key whose secret part is published proves nothing
        kid, kty, curve, alg = (members.get(name, "") for name in ("kid", "kty", "crv", "alg"))
        operations = members.get("key_ops", ["verify"])
        if (
            not all(isinstance(text, str) for text in (kid, kty, curve, alg))
            or members.get("use", "sig") != "sig"
            or not isinstance(operations, list)
            or "verify" not in operations
        ):
            continue
        key = SigningKey(kid, kty, curve, alg, None)
        fitting = next((name for name in ALGORITHMS if key.fits(name)), None)
        public = None if fitting is None else _read_public(members, fitting)
        if public is not None:
            keys.append(key._replace(public=public))
    return tuple(keys)


def _read_public(members: dict[str, Any], alg: str) -> Any:
    """Return the key; None if it is damaged, too weak or too long."""
    from jwt import PyJWTError

    try:
        public = _algorithm(alg).from_jwk(members)
    except (PyJWTError, ValueError, TypeError, KeyError, ArithmeticError):
        return None
    return public if members["kty"] != "RSA" or public.key_size in _RSA_BITS else None


def check_token(token: str, keys: Iterable[SigningKey], terms: TokenTerms, now: float) -> dict[str, Any]:
    """Return the claims of a token.

    Args:
        token: The text as it came.
        keys: Those of the provider.
        terms: What is asked of it.
        now: Seconds since 1970.

    Raises:
        TokenRefused: it is not valid; `UnknownKey` if another set of keys might change that.
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenRefused(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("it does not have three parts")
    head_bytes, claim_bytes, signature = (_from_base64url(part) for part in parts)
    if len(head_bytes) > _MAX_HEADER_BYTES:
        raise TokenRefused("its header is too long")
    header = _read_object(head_bytes, "header")
    alg = _check_header(header)
    key = _find_key(header, alg, keys)
    if not _algorithm(alg).verify(f"{parts[0]}.{parts[1]}".encode("ascii"), key.public, signature):
        raise TokenRefused("its signature is wrong")
    claims = _read_object(claim_bytes, "claims")
    _check_claims(claims, terms, now)
    return claims


def _from_base64url(part: str) -> bytes:
    """Decode strictly: a text that another decoder would read differently is refused."""
    if not _BASE64URL.fullmatch(part) or len(part) % 4 == 1:
        raise TokenRefused("a part of it is empty or not base64url")
    found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != part:
        raise TokenRefused("a part of it is not the only form of its base64url")
    return found


def _read_object(data: bytes, what: str) -> dict[str, Any]:
    """Decode JSON in which no object has a member twice: two readers could see two values."""
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair is not a character
    except (ValueError, RecursionError):
        raise TokenRefused(f"its {what} cannot be read") from None
    if not isinstance(found, dict):
        raise TokenRefused(f"its {what} is not an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member occurs twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_header(header: dict[str, Any]) -> str:
    """Return the algorithm."""
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in ALGORITHMS:
        raise TokenRefused(f"its algorithm is not one of {', '.join(ALGORITHMS)}")
    if "crit" in header or "b64" in header:
        raise TokenRefused("its header demands an extension that is not known")
    if "enc" in header or "zip" in header or "cty" in header:
        raise TokenRefused("it is encrypted, compressed, or holds another token")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise TokenRefused("its type is not that of a token for access")
    kid = header.get("kid", "")
    if not isinstance(kid, str) or len(kid) > _MAX_TEXT:
        raise TokenRefused("the name of its key is not a short text")
    return alg


def _find_key(header: dict[str, Any], alg: str, keys: Iterable[SigningKey]) -> SigningKey:
    kid = header.get("kid", "")
    named = [key for key in keys if not kid or key.kid == kid]
    if not named:
        raise UnknownKey("its key is not known")
    fitting = [key for key in named if key.fits(alg)]
    if len(fitting) != 1:  # without a name, or with one that several keys have, it must be clear which is meant
        raise TokenRefused(
            "no key is for its algorithm" if not fitting else "it does not say which key it is signed with"
        )
    return fitting[0]


@cache
def _algorithm(alg: str) -> Any:
    from jwt import get_algorithm_by_name

    return get_algorithm_by_name(_SAME.get(alg, alg))


def _check_claims(claims: dict[str, Any], terms: TokenTerms, now: float) -> None:
    def refuse(reason: str) -> NoReturn:
        raise TokenRefused(reason, is_proven=True)

    if claims.get("iss") != terms.issuer:
        refuse("it is of another issuer")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or len(audiences) > _MAX_AUDIENCES:
        refuse("it does not say whom it is for (aud)")
    if not all(isinstance(name, str) for name in audiences) or terms.audiences.isdisjoint(audiences):
        refuse("it is for another audience (aud)")
    expires = _time(claims, "exp", refuse)
    if expires is None:
        refuse("it does not say when it expires (exp)")
    if now >= expires + LEEWAY_SECONDS:
        refuse("it has expired")
    if any((_time(claims, name, refuse) or 0.0) > now + LEEWAY_SECONDS for name in ("nbf", "iat")):
        refuse("it is not valid yet; are the clocks right?")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_TEXT:
        refuse("it does not say whose it is (sub)")
    if "cnf" in claims:
        refuse("it is bound to a key of its holder, which is not supported")
    kind = claims.get("typ")
    if "events" in claims or (isinstance(kind, str) and kind.lower() in _OTHER_USES):
        refuse("it is not a token for access")


def _time(claims: dict[str, Any], name: str, refuse: Callable[[str], NoReturn]) -> float | None:
    if name not in claims:
        return None
    found = claims[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        refuse(f"its {name} is not a time")
    if not 0 <= found < _LATEST:
        refuse(f"its {name} is not a time")
    return float(found)
