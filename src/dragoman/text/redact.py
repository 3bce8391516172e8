"""Masks for JSON values of unknown type, and pseudonyms for ids.

Owns the treatment of values without a schema: every text and number is masked, and so is the name of a member, unless
it is one of the names that are known to be harmless. Typed messages are the
concern of `trace/redact.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.text.placeholder import mask, mask_number

if TYPE_CHECKING:
    from collections.abc import Container


class JsonMask:
    """The masks of one conversation. The same id or name gets the same pseudonym wherever it stands.

    Args:
        kept_names: Names of members that stay as they are.
    """

    def __init__(self, kept_names: Container[str]) -> None:
        self._kept_names = kept_names
        self._pseudonyms: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def value(self, value: Any) -> Any:
        """Mask a JSON value with everything in it; true, false and null stay."""
        match value:
            case dict():
                return {self.name(name): self.value(part) for name, part in value.items()}
            case list():
                return [self.value(part) for part in value]
            case str():
                return mask(value)
            case bool() | None:
                return value
        return mask_number(value)

    def name(self, name: str) -> str:
        """Return a member's name if it may be kept, else its pseudonym: agents use paths and contents as names, too."""
        return name if name in self._kept_names else self.key(name)

    def key(self, name: str) -> str:
        """Return the pseudonym of a key of a mapping."""
        return self.pseudonym(name, "key")

    def pseudonym(self, value: str, kind: str) -> str:
        """Return `kind-1`, `kind-2`...: one for each value. An empty value stays empty."""
        if value and value not in self._pseudonyms:
            self._counts[kind] = count = self._counts.get(kind, 0) + 1
            self._pseudonyms[value] = f"{kind}-{count}"
        return self._pseudonyms.get(value, value)
