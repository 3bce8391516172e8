"""The options of `dragoman serve` for logins by OpenID Connect.

A module of its own, because a host with tokens alone starts without it and what it loads.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.cli.exits import CliError
from dragoman.errors import ConfigError
from dragoman.extras import install_command
from dragoman.host.serving.oidc.logins import LoginRule, Logins, LoginSettings
from dragoman.host.serving.oidc.provider import LoginProvider, ProviderAway, check_issuer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OTHERS: Final = "*"
_REFUSED: Final = "refuse"


def read_login_settings(given: Any, stored: Mapping[str, Any]) -> LoginSettings:
    """Return what the settings, a file and the options say about logins; each changes the ones before.

    Args:
        given: The options.
        stored: `serve.oidc` of the user's settings.

    Raises:
        CliError, ConfigError: something about it is wrong.
    """
    try:
        import jwt  # noqa: F401 - what is missing is reported now, and not to the first user
    except ImportError:
        raise CliError("logins need one more package", hint=install_command("login")) from None
    members = dict(stored)
    if given.oidc_rules is not None:
        members |= _read_file(given.oidc_rules)
    try:
        settings = msgspec.convert(members, LoginSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"what is set for logins (serve.oidc) is wrong: {error}") from None
    changed: dict[str, Any] = {
        name: value
        for name, value in (
            ("issuer", given.oidc_issuer),
            ("audience", tuple(given.oidc_audience)),
            ("client_id", given.oidc_client_id),
            ("user_claim", given.oidc_user_claim),
        )
        if value
    }
    rules, otherwise = _read_rights(given.oidc_right)
    if rules:
        changed["rules"] = (*settings.rules, *rules)
    if otherwise is not None:
        changed["otherwise"] = otherwise
    settings = msgspec.structs.replace(settings, **changed).check()
    check_issuer(settings.issuer)
    return settings


def _read_file(path: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise CliError(f"--oidc-rules {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CliError(f"--oidc-rules {path}: {error}", hint='write {"rules": [], "otherwise": ["view"]}') from None
    if not isinstance(found, dict):
        raise CliError(f"--oidc-rules {path}: not an object", hint='write {"rules": [], "otherwise": ["view"]}')
    return found


def _read_rights(texts: list[str]) -> tuple[list[LoginRule], tuple[str, ...] | None]:
    """Return the rules of `GROUP=RIGHT,RIGHT`, and the rights of all others."""
    rules, otherwise = [], None
    for text in texts:
        group, separator, rights = text.rpartition("=")
        named = tuple(right.strip() for right in rights.split(",") if right.strip())
        if not separator or not group or not named:
            raise CliError(
                f"--oidc-right {text}: not a rule",
                hint="write it like ops=admin, '*=view' or '*=refuse' for all others",
            )
        is_refused = named == (_REFUSED,)
        if group == _OTHERS:
            otherwise = () if is_refused else named
        elif is_refused:
            rules.append(LoginRule(is_=group, refuse=True))
        else:
            rules.append(LoginRule(is_=group, rights=named))
    return rules, otherwise


async def open_logins(settings: LoginSettings, note: Callable[[str], object]) -> Logins:
    """Return the logins of a host, with the keys of the provider if it can be reached; `note` gets a sentence if not.

    Raises:
        ConfigError: what is at its address is not the provider.
    """
    tls = None
    if settings.ca is not None:
        from dragoman.transports.remote.http_client import trust

        tls = trust(settings.ca)
    provider = LoginProvider(settings.issuer, tls=tls)
    try:
        await provider.prepare()
    except ProviderAway as error:
        note(f"warning: no login works until the provider is back: {error}")
    except BaseException:
        await provider.close()
        raise
    return Logins(settings, provider)
