"""Values that look like keys: recognised by the name they have, by their own form, or by where they stand. Pure.

A key is never shown and never written by itself. It is replaced by `${NAME}`, which stands for a variable of the
environment; the value itself is stored only if the user says so at the terminal.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = re.compile(
    r"(?i)(?:^|[_.-])(?:api_?keys?|keys?|tokens?|secrets?|passw(?:or)?d|pwd|pat|auth|authorization|credentials?|"
    r"cookie|bearer|signature|dsn)(?:$|[_.-])|apikey|authtoken|accesskey|secretkey|password"
)
# Forms that services give their keys.
_FORMS: Final = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w.-]{10,}|"
    r"npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|lin_api_\w{10,}|ntn_\w{20,}"
)
# Repetitions are bounded, so that no text makes the search slow.
_LONG: Final = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/=_-]{32,512}")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic|token)[ ]+(?!\$)([^\s\"']{6,512})")
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s\"':]{0,100}:[^/@\s\"'$]{1,512}@")
_PARAMETER: Final = re.compile(
    r"(?i)([?&][\w-]{0,40}(?:key|token|secret|auth|password|sig)[\w-]{0,20}=)(?!\$)([^&\s\"']{1,512})"
)
_ASSIGNED: Final = re.compile(
    r"(?i)((?:api[-_]?key|token|secret|password|passwd)[\w-]{0,20}(?:=|:[ ]*|[ ]+))(?!\$)(?=[^\s\"']{0,60}[0-9])"
    r"([^\s\"'$-][^\s\"']{5,512})"
)
VARIABLE: Final = re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}")
HIDDEN: Final = "[key]"


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable or a header is a key. One that only names a variable is not."""
    bare = VARIABLE.sub("", value).strip()
    if not bare or bare.lower() in ("bearer", "basic", "token", "true", "false"):
        return False
    return _NAMES.search(name) is not None or has_secret(bare)


def has_secret(text: str) -> bool:
    """Whether a text holds something that looks like a key."""
    return masked(text) != text


def masked(text: str) -> str:
    """Return the text with everything that looks like a key hidden."""
    text = _USERINFO.sub(f"{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
    text = _FORMS.sub(HIDDEN, text)
    return _LONG.sub(lambda found: HIDDEN if _is_random(found[0]) else found[0], text)


def referenced(text: str, variable: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with each key replaced by the variable that is to hold it, and the names of these variables."""
    pieces = masked(text).split(HIDDEN)
    names = [variable if number == 1 else f"{variable}_{number}" for number in range(1, len(pieces))]
    filled = "".join(piece + (f"${{{names[at]}}}" if at < len(names) else "") for at, piece in enumerate(pieces))
    return filled, tuple(names)


def _is_random(word: str) -> bool:
    """Whether a long word looks like a key, not like a path or words with hyphens."""
    if not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
        return False
    parts = re.split(r"[-_/+=]", word)
    return len(parts) < 3 or max(map(len, parts)) >= 20


def variable_name(*words: str) -> str:
    """Return a name for the variable that is to hold a key."""
    name = re.sub(r"[^A-Z0-9]+", "_", "_".join(words).upper()).strip("_")
    return name if name[:1].isalpha() else f"KEY_{name}"
