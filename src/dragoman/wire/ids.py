"""What an id may be (rule 20), for everybody who reads or writes one."""

from __future__ import annotations

from typing import Literal, TypeAlias

Id: TypeAlias = int | str | None
Kind: TypeAlias = Literal["request", "response", "unknown"]
