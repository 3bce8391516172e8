"""Logins by OpenID Connect: what the operator wrote about them, and the users that signed tokens stand for.

A login is a `HostToken` that is in no file: it has a user, rights, folders and an end, as any other. Its user is
`oidc:NAME`, which no token of the host can have, unless the operator says that both have the same users. What was
accepted is remembered by the hash of the token until its end, so that a signature is not computed for every request.
"""

from __future__ import annotations

import hashlib
import logging
import time
import unicodedata
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from dragoman.errors import ConfigError
from dragoman.host.serving.oidc.tokens import LEEWAY_SECONDS, TokenRefused, TokenTerms, UnknownKey, check_token
from dragoman.host.serving.tokens import RIGHTS, USUAL_RIGHTS, HostToken, checked_user

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from dragoman.host.serving.oidc.provider import LoginProvider

_log = logging.getLogger("dragoman.host")
PREFIX: Final = "oidc:"
"""Of the names and users of logins; a colon cannot be in those of tokens."""
_MOST_LOGINS: Final = 10_000
_MAX_NAME: Final = 128
_IN_NAMES: Final = frozenset("._-@+|:=~#")  # no slash: a name must never be a path
_MAX_VALUES: Final = 4096


class LoginRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What users have of whom a claim says something."""

    is_: str = msgspec.field(name="is")
    """The value of the claim, or one in its list."""
    claim: str = ""
    """By default the claim of groups."""
    rights: tuple[str, ...] = ()
    """In addition to what other rules give."""
    folders: tuple[str, ...] | None = None
    """Where sessions may work; of several rules, the folders of all."""
    programs: bool = False
    """Whether clients may send MCP servers that are programs, which run with the rights of the host."""
    refuse: bool = False
    """They are not let in, whatever other rules say."""


class LoginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which provider logs users in, and what they may do: `serve.oidc` of the settings, changed by options."""

    issuer: str = ""
    audience: tuple[str, ...] = ()
    client_id: str = ""
    """What clients name themselves to the provider; by default the first audience."""
    scopes: tuple[str, ...] = ("openid", "profile", "email", "offline_access")
    """What clients ask the provider for."""
    token: Literal["access", "id"] = "access"
    """Which of the provider's tokens clients send: some give no access tokens that others can check."""
    parameters: dict[str, str] = {}
    """What clients send besides when they ask for a device code: `audience` or `resource`, as the provider wants it."""
    user_claim: str = "sub"
    group_claim: str = "groups"
    rules: tuple[LoginRule, ...] = ()
    otherwise: tuple[str, ...] = USUAL_RIGHTS
    """The rights of users that no rule speaks of, and of all others in addition; empty to refuse those."""
    same_users: bool = False
    """A login and a token with the same user are the same user."""
    ca: str | None = None
    """A file with further certificates to trust, for a provider with one of its own."""

    def check(self) -> LoginSettings:
        """Return them, if they can be used. Raises: ConfigError with what to change."""
        if not self.issuer:
            raise ConfigError("a login needs the address of the provider: --oidc-issuer URL")
        if not self.audience or not all(self.audience):
            raise ConfigError("a login needs the audience of tokens for this host: --oidc-audience NAME")
        for rule in self.rules:
            _check_rights(rule.rights)
            if not rule.is_:
                raise ConfigError("a rule for logins needs the value of its claim: is")
            if not rule.refuse and not (rule.rights or rule.folders is not None or rule.programs):
                raise ConfigError(f"the rule for {rule.is_!r} gives nothing; name rights, or refuse")
            for folder in rule.folders or ():
                if not folder.startswith("/"):
                    raise ConfigError(f"the folder of the rule for {rule.is_!r} must be absolute: {folder}")
        _check_rights(self.otherwise)
        if self.otherwise and "view" not in self.otherwise:
            raise ConfigError("logins without the right view could not be used for anything")
        return self


def _check_rights(rights: tuple[str, ...]) -> None:
    for right in rights:
        if right not in RIGHTS:
            raise ConfigError(f"{right!r} is not a right; the rights are {', '.join(RIGHTS)}")


class LoginRefused(Exception):
    """A token of the provider that does not let its user in; the message is for the user."""

    def __init__(self, reason: str, *, is_forbidden: bool = False) -> None:
        super().__init__(reason)
        self.is_forbidden = is_forbidden
        """The token is right, and its user is not let in: another token would not help."""


class Logins:
    """The door for tokens of the provider."""

    def __init__(
        self, settings: LoginSettings, provider: LoginProvider, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings.check()
        self.provider = provider
        self._clock = clock
        self._terms = TokenTerms(settings.issuer, frozenset(settings.audience))
        self._accepted: dict[str, HostToken] = {}
        provider.on_changed = self._accepted.clear  # a key that the provider withdrew opens nothing more

    def find(self, token: str) -> HostToken | asyncio.Future[None] | None:
        """Return the login with this token; a future if the keys are being fetched, after which to ask again.

        Raises:
            LoginRefused: the provider has signed it, and it is not accepted.
        """
        key = login_key(token)
        known = self.get(key)
        if known is not None:
            return known
        try:
            claims = check_token(token, self.provider.keys, self._terms, self._clock())
        except UnknownKey:
            return self.provider.ask_again()
        except TokenRefused as refused:
            if not refused.is_proven:
                _log.debug("a token was refused: %s", refused)
                return None
            _log.info("a token of the provider was refused: %s", refused)
            raise LoginRefused(f"the login is not accepted: {refused}") from None
        login = self._login(claims, key)
        if len(self._accepted) >= _MOST_LOGINS:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[key] = login
        return login

    def get(self, key: str) -> HostToken | None:
        """Return the login with this key, if it was accepted and is valid now."""
        login = self._accepted.get(key)
        if login is not None and self.is_over(login):
            del self._accepted[key]
            return None
        return login

    def is_over(self, login: HostToken) -> bool:
        return login.expires_at is None or login.expires_at <= self._clock()

    def _login(self, claims: dict[str, Any], key: str) -> HostToken:
        settings = self.settings
        user = _user_of(claims, settings)
        rules = [rule for rule in settings.rules if rule.is_ in _values(claims, rule.claim or settings.group_claim)]
        rights = {*settings.otherwise}.union(*(rule.rights for rule in rules))
        if any(rule.refuse for rule in rules) or "view" not in rights:
            _log.info("the user %r was refused: no rule lets this login in", user)
            raise LoginRefused("the login is right, but no rule of this host lets its user in", is_forbidden=True)
        folders = [rule.folders for rule in rules if rule.folders is not None]
        return HostToken(
            name=f"{PREFIX}{user}",
            digest=key,
            user=user if settings.same_users else f"{PREFIX}{user}",
            rights=tuple(right for right in RIGHTS if right in rights),
            folders=tuple(dict.fromkeys(folder for some in folders for folder in some)) if folders else None,
            may_start_programs=any(rule.programs for rule in rules),
            expires_at=claims["exp"] + LEEWAY_SECONDS,
            created_at=self._clock(),
        )


def login_key(token: str) -> str:
    """Return what a login is remembered by."""
    return f"login:{hashlib.sha256(token.encode('utf-8', 'surrogateescape')).hexdigest()}"


def is_signed_form(token: str) -> bool:
    """Whether a text has the form of a signed token, which no token of a host has."""
    return token.count(".") == 2 and token.startswith("ey")


def _user_of(claims: dict[str, Any], settings: LoginSettings) -> str:
    """Return the user; a name that could be taken for another one is not used."""
    name = _claim(claims, settings.user_claim)
    if not isinstance(name, str) or not name:
        raise LoginRefused(f"the login does not say who its user is: its claim {settings.user_claim} is not a text")
    if settings.user_claim == "email" and claims.get("email_verified") is not True:
        raise LoginRefused("the login has an address that the provider has not verified (email_verified)")
    if settings.same_users:
        try:
            return checked_user(name)
        except ConfigError:
            raise LoginRefused(f"the user of the login cannot be one of a token: {name[:_MAX_NAME]!r}") from None
    is_plain = all(unicodedata.category(sign)[0] in "LMN" or sign in _IN_NAMES for sign in name)
    if len(name) > _MAX_NAME or not is_plain or unicodedata.normalize("NFKC", name) != name:
        raise LoginRefused(f"the user of the login has a name that cannot be used: {name[:_MAX_NAME]!a}")
    return name


def _claim(claims: dict[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path with dots: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _values(claims: dict[str, Any], name: str) -> frozenset[str]:
    """Return what a claim says: its text, or the texts of its list."""
    found = _claim(claims, name)
    values = found[:_MAX_VALUES] if isinstance(found, list) else [found]
    return frozenset(value for value in values if isinstance(value, str))
