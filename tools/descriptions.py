"""Writes how models get the built-in tools described: `python -m tools.descriptions`. A test compares it with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from dragoman.builtin.tools.built_in import derive_schema
from dragoman.builtin.tools.table import built_in_tools

FILE: Final = Path(__file__).parent.parent / "src/dragoman/builtin/tools/built_in.json"


def main() -> int:
    FILE.write_bytes(descriptions())
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
    return 0


def descriptions() -> bytes:
    """Return the file's content."""
    tools = [built_in.tool for built_in in built_in_tools().values()]
    found = {
        tool.name: {"description": tool.description, "parameters": derive_schema(tool.arguments)} for tool in tools
    }
    return (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    sys.exit(main())
