"""Whether a capability was advertised, by the dotted path that the method table gives as its gate."""

from __future__ import annotations

from msgspec import UNSET


def is_advertised(capabilities: object, gate: str) -> bool:
    """Whether `gate`, a dotted path of wire names such as `fs.readTextFile`, is on in a capabilities object.

    Absent, null and false are the same (rules 49, 57, 58).
    """
    found = capabilities
    for name in gate.split("."):
        found = getattr(found, _attribute(name), None)
        if found is None or found is UNSET or found is False:
            return False
    return True


def _attribute(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
