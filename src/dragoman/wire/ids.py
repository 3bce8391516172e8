"""What the id of a message may be (rule 20)."""

from __future__ import annotations

from typing import Literal, TypeAlias

Id: TypeAlias = int | str | None
Kind: TypeAlias = Literal["request", "response", "unknown"]
