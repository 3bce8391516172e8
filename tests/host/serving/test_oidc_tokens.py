"""Which signed tokens are valid: hostile ones are refused, each for its own reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dragoman.host.serving.oidc.tokens import (
    LEEWAY_SECONDS,
    MAX_TOKEN_BYTES,
    TokenRefused,
    TokenTerms,
    UnknownKey,
    check_token,
    read_keys,
)
from tests.host.serving.oidc_kit import (
    AUDIENCE,
    ISSUER,
    NOW,
    base64url,
    claims,
    encode,
    good,
    jwk,
    private_key,
    sign,
    sign_with_secret,
)

TERMS = TokenTerms(ISSUER, frozenset((AUDIENCE, "another-name")))


def provider_keys() -> dict[str, Any]:
    """Return the JWK set of the provider."""
    return {
        "keys": [
            jwk("rsa", kid="k1", use="sig", alg="RS256"),
            jwk("rsa/2", kid="free"),
            jwk("p256", kid="ec", use="sig"),
            jwk("ed25519", kid="ed", key_ops=["verify"]),
            jwk("rsa/3", kid="enc", use="enc"),
            jwk("rsa/4", kid="wraps", key_ops=["wrapKey"]),
            jwk("rsa-1024", kid="weak"),
            jwk("p384", kid="p384"),
            jwk("ed448", kid="ed448"),
            jwk("rsa/5", kid="leaked", d="AQAB"),
            {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
            {"kty": "RSA", "kid": "damaged", "n": "!!", "e": "AQAB"},
            {"kty": "EC", "crv": "P-256", "kid": "off", "x": "AQ", "y": "AQ"},
            {"kty": "OKP", "crv": "Ed25519", "kid": "short", "x": "AQ"},
            "not a key",
        ]
    }


def check(token: str, now: float = NOW) -> dict[str, Any]:
    return check_token(token, read_keys(provider_keys()), TERMS, now)


def header(**changed: Any) -> dict[str, Any]:
    made = {"alg": "RS256", "kid": "k1", "typ": "JWT", **changed}
    return {name: value for name, value in made.items() if value is not None}


def other_forms(token: str) -> str:
    """Return a token whose last sign has other unused bits: lenient readers decode the same signature."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def swapped(token: str, **changed: Any) -> str:
    """Return a token with other claims and the signature of the old ones."""
    head, _, signature = token.split(".")
    return f"{head}.{base64url(json.dumps(claims(**changed)).encode())}.{signature}"


def public_pem() -> bytes:
    return bytes(private_key("rsa").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


TWICE = json.dumps(claims()).encode()[:-1] + b', "sub": "root"}'
TWICE_INSIDE = json.dumps(claims()).encode()[:-1] + b', "realm_access": {"roles": [], "roles": ["admin"]}}'
EVIL = "https://evil.example/keys"

HOSTILE: dict[str, tuple[Callable[[], str], str]] = {
    # algorithms
    "alg none without a signature": (lambda: encode(header(alg="none"), claims()) + ".", "not base64url"),
    "alg none with a signature": (lambda: encode(header(alg="none"), claims()) + ".AAAA", "algorithm"),
    "alg None": (lambda: encode(header(alg="nOnE"), claims()) + ".AAAA", "algorithm"),
    "alg missing": (lambda: sign(header(alg=None), claims(), "rsa", "RS256"), "algorithm"),
    "alg a number": (lambda: sign(header(alg=1), claims(), "rsa", "RS256"), "algorithm"),
    "alg a list": (lambda: sign(header(alg=["RS256"]), claims(), "rsa", "RS256"), "algorithm"),
    "alg in small letters": (lambda: sign(header(alg="rs256"), claims(), "rsa", "RS256"), "algorithm"),
    "HS256 with the public key": (
        lambda: sign_with_secret(header(alg="HS256"), claims(), public_pem()),
        "algorithm",
    ),
    "HS256 with the modulus": (
        lambda: sign_with_secret(header(alg="HS256"), claims(), jwk("rsa")["n"].encode()),
        "algorithm",
    ),
    "HS256 with a published secret": (
        lambda: sign_with_secret(header(alg="HS256", kid="secret"), claims(), b"secret"),
        "algorithm",
    ),
    "a weaker hash": (lambda: sign(header(alg="RS512"), claims(), "rsa"), "algorithm"),
    "PS256 with a key for RS256": (lambda: sign(header(alg="PS256"), claims(), "rsa"), "no key is for"),
    "RS256 named with the key of ES256": (lambda: sign(header(kid="ec"), claims(), "rsa"), "no key is for"),
    "ES256 named with the key of RS256": (lambda: sign(header(alg="ES256"), claims(), "p256"), "no key is for"),
    "ES256 with P-384": (lambda: sign(header(alg="ES256", kid="p384"), claims(), "p384"), "key is not known"),
    "EdDSA with Ed448": (lambda: sign(header(alg="EdDSA", kid="ed448"), claims(), "ed448"), "key is not known"),
    "ES256 with a signature of zeros": (
        lambda: f"{encode(header(alg='ES256', kid='ec'), claims())}.{base64url(bytes(64))}",
        "signature",
    ),
    "an empty signature": (lambda: encode(header(), claims()) + ".", "not base64url"),
    # keys
    "another key under the same name": (lambda: sign(header(), claims(), "rsa/9"), "signature"),
    "an unknown key": (lambda: good("rsa/9", kid="new"), "key is not known"),
    "a key for encryption": (lambda: good("rsa/3", kid="enc"), "key is not known"),
    "a key that does not verify": (lambda: good("rsa/4", kid="wraps"), "key is not known"),
    "a key of 1024 bits": (lambda: good("rsa-1024", kid="weak"), "key is not known"),
    "a key whose secret is published": (lambda: good("rsa/5", kid="leaked"), "key is not known"),
    "no name of a key": (lambda: sign(header(kid=None), claims(), "rsa"), "which key"),
    "a path as the name of a key": (lambda: good("rsa/9", kid="../../../dev/null"), "key is not known"),
    "a query as the name of a key": (lambda: good("rsa/9", kid="k1' UNION SELECT 'x"), "key is not known"),
    "a number as the name of a key": (lambda: sign(header(kid=1), claims(), "rsa"), "name of its key"),
    "a long name of a key": (lambda: sign(header(kid="k" * 1100), claims(), "rsa"), "name of its key"),
    "jku of the forger": (lambda: sign(header(jku=EVIL), claims(), "rsa/9"), "signature"),
    "x5u of the forger": (lambda: sign(header(x5u=EVIL, kid="evil"), claims(), "rsa/9"), "key is not known"),
    "jwk of the forger": (lambda: sign(header(jwk=jwk("rsa/9")), claims(), "rsa/9"), "signature"),
    "x5c of the forger": (lambda: sign(header(x5c=["MIIB"]), claims(), "rsa/9"), "signature"),
    # form
    "claims changed": (lambda: swapped(good(), sub="root"), "signature"),
    "a huge token": (lambda: good(sub="a" * MAX_TOKEN_BYTES), "longer than"),
    "a huge header": (lambda: sign(header(x="y" * 5000), claims(), "rsa"), "header is too long"),
    "two parts": (lambda: good().rpartition(".")[0], "three parts"),
    "five parts, as if encrypted": (lambda: good() + ".AAAA.AAAA", "three parts"),
    "padding": (lambda: good() + "==", "not base64url"),
    "base64 that is not for addresses": (lambda: good().replace("_", "/").replace("-", "+") + "+", "not base64url"),
    "a space": (lambda: good().replace(".", ". ", 1), "not base64url"),
    "a line break": (lambda: good() + "\n", "not base64url"),
    "letters that look like others": (lambda: good().replace("e", "е", 1), "not base64url"),
    "unused bits": (lambda: other_forms(good()), "only form"),
    "a header that is not JSON": (lambda: sign(b"{", claims(), "rsa", "RS256"), "header cannot be read"),
    "a header that is a list": (lambda: sign([], claims(), "rsa", "RS256"), "header is not an object"),
    "alg twice": (lambda: sign(b'{"alg":"none","kid":"k1","alg":"RS256"}', claims(), "rsa", "RS256"), "header cannot"),
    "a claim twice": (lambda: sign(header(), TWICE, "rsa"), "claims cannot be read"),
    "a claim twice inside of another": (lambda: sign(header(), TWICE_INSIDE, "rsa"), "claims cannot be read"),
    "claims that are nested deep": (lambda: sign(header(), b"[" * 5000 + b"]" * 5000, "rsa"), "claims (cannot|is not)"),
    "claims that are a list": (lambda: sign(header(), [], "rsa"), "claims is not an object"),
    "claims with a byte order mark": (lambda: sign(header(), b"\xef\xbb\xbf{}", "rsa"), "claims cannot be read"),
    "claims in Latin-1": (lambda: sign(header(), b'{"sub": "\xe9"}', "rsa"), "claims cannot be read"),
    "half of a surrogate pair": (lambda: sign(header(), b'{"sub": "\\ud800"}', "rsa"), "claims cannot be read"),
    "a token inside of a token": (
        lambda: sign(header(cty="JWT"), good().encode(), "rsa"),
        "holds another token",
    ),
    "an extension that must be understood": (lambda: sign(header(crit=["x"], x=1), claims(), "rsa"), "extension"),
    "an empty list of extensions": (lambda: sign(header(crit=[]), claims(), "rsa"), "extension"),
    "a body that is not encoded": (lambda: sign(header(b64=False), claims(), "rsa"), "extension"),
    "compression": (lambda: sign(header(zip="DEF"), claims(), "rsa"), "compressed"),
    # types
    "a token that ends a session": (lambda: sign(header(typ="logout+jwt"), claims(), "rsa"), "type"),
    "a proof": (lambda: sign(header(typ="dpop+jwt"), claims(), "rsa"), "type"),
    "a type that is not a text": (lambda: sign(header(typ=["JWT"]), claims(), "rsa"), "type"),
    "a token of events": (lambda: good(events={"logout": {}}), "not a token for access"),
    "a refresh token": (lambda: good(typ="Refresh"), "not a token for access"),
    "a token bound to a key": (lambda: good(cnf={"jkt": "x"}), "bound to a key"),
    # claims
    "another issuer": (lambda: good(iss="https://evil.example"), "another issuer"),
    "an issuer with a slash": (lambda: good(iss=f"{ISSUER}/"), "another issuer"),
    "an issuer in capitals": (lambda: good(iss=ISSUER.upper()), "another issuer"),
    "a list of issuers": (lambda: good(iss=[ISSUER]), "another issuer"),
    "no issuer": (lambda: good(iss=None), "another issuer"),
    "another audience": (lambda: good(aud="elsewhere"), "another audience"),
    "an audience that begins alike": (lambda: good(aud=f"{AUDIENCE}-test"), "another audience"),
    "an audience in a text": (lambda: good(aud=f"elsewhere {AUDIENCE}"), "another audience"),
    "an empty list of audiences": (lambda: good(aud=[]), "another audience"),
    "audiences that are not texts": (lambda: good(aud=[AUDIENCE, 1]), "another audience"),
    "an audience that is an object": (lambda: good(aud={AUDIENCE: 1}), "whom it is for"),
    "very many audiences": (lambda: good(aud=[AUDIENCE] * 65), "whom it is for"),
    "no audience": (lambda: good(aud=None), "whom it is for"),
    "expired": (lambda: good(exp=NOW - LEEWAY_SECONDS), "has expired"),
    "no end": (lambda: good(exp=None), "when it expires"),
    "an end that is a text": (lambda: good(exp=str(NOW + 600)), "exp is not a time"),
    "an end that is true": (lambda: good(exp=True), "exp is not a time"),
    "an end that is infinite": (
        lambda: sign(header(), json.dumps(claims(exp=float("inf"))).encode(), "rsa"),
        "claims cannot be read",
    ),
    "an end beyond all numbers": (lambda: good(exp=1e308), "exp is not a time"),
    "an end with thousands of digits": (
        lambda: sign(header(), b'{"exp": ' + b"9" * 5000 + b"}", "rsa"),
        "claims cannot be read",
    ),
    "an end before all times": (lambda: good(exp=-1), "exp is not a time"),
    "not valid yet": (lambda: good(nbf=NOW + LEEWAY_SECONDS + 1), "not valid yet"),
    "made in the future": (lambda: good(iat=NOW + LEEWAY_SECONDS + 1), "not valid yet"),
    "nbf that is a text": (lambda: good(nbf="soon"), "nbf is not a time"),
    "no subject": (lambda: good(sub=None), "whose it is"),
    "an empty subject": (lambda: good(sub=""), "whose it is"),
    "a subject that is a number": (lambda: good(sub=7), "whose it is"),
    "a very long subject": (lambda: good(sub="a" * 1100), "whose it is"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_token_is_refused_for_its_own_reason(name: str) -> None:
    make, reason = HOSTILE[name]
    with pytest.raises(TokenRefused, match=reason) as refused:
        check(make())
    # The sender is given the reason only for what the provider has signed.
    is_signed = name in {row for row in HOSTILE if list(HOSTILE).index(row) >= list(HOSTILE).index("a token of events")}
    assert refused.value.is_proven == (is_signed and "cannot be read" not in reason)


@pytest.mark.parametrize(
    ("key", "alg", "kid"),
    [
        ("rsa", "RS256", "k1"),
        ("rsa/2", "RS256", "free"),
        ("rsa/2", "PS256", "free"),
        ("p256", "ES256", "ec"),
        ("ed25519", "EdDSA", "ed"),
        ("ed25519", "Ed25519", "ed"),
    ],
)
def test_good_token_of_each_algorithm_gives_its_claims(key: str, alg: str, kid: str) -> None:
    assert check(good(key, alg, kid)) == claims()


@pytest.mark.parametrize(
    "made",
    [
        claims(aud=["elsewhere", AUDIENCE]),
        claims(aud="another-name"),
        claims(exp=NOW - LEEWAY_SECONDS + 1),
        claims(nbf=NOW + LEEWAY_SECONDS - 1, iat=NOW + LEEWAY_SECONDS - 1),
        claims(nbf=None, iat=None),
        claims(sub="größe@例え.jp", groups=["ops"], realm_access={"roles": ["a"]}),
        claims(typ="Bearer", nonce="x", azp="cli"),
    ],
)
def test_what_providers_send_is_accepted(made: dict[str, Any]) -> None:
    assert check(sign(header(), made, "rsa")) == made


@pytest.mark.parametrize("changed", [{"typ": None}, {"typ": "AT+JWT"}, {"typ": "application/at+jwt"}, {"x5t": "abc"}])
def test_header_of_a_provider_is_accepted(changed: dict[str, Any]) -> None:
    assert check(sign(header(**changed), claims(), "rsa")) == claims()


def test_address_of_keys_in_a_token_is_never_used() -> None:
    assert check(sign(header(jku=EVIL, x5u=EVIL), claims(), "rsa")) == claims()  # nothing can be fetched here


def test_token_without_a_name_of_a_key_needs_a_provider_with_one_key() -> None:
    token = sign(header(kid=None), claims(), "rsa")
    only = read_keys({"keys": [jwk("rsa"), jwk("p256", kid="other kind")]})
    assert check_token(token, only, TERMS, NOW) == claims()


def test_two_keys_of_one_name_and_kind_are_not_guessed() -> None:
    twice = read_keys({"keys": [jwk("rsa", kid="k1"), jwk("rsa/9", kid="k1")]})
    with pytest.raises(TokenRefused, match="which key"):
        check_token(good(), twice, TERMS, NOW)


def test_unknown_key_is_an_error_of_its_own() -> None:
    with pytest.raises(UnknownKey):
        check(good("rsa/9", kid="new"))
    with pytest.raises(UnknownKey):
        check_token(good(), (), TERMS, NOW)


@pytest.mark.parametrize("document", [None, [], {}, {"keys": {}}, {"keys": None}, "keys"])
def test_what_is_not_a_set_of_keys_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="JWK set"):
        read_keys(document)
