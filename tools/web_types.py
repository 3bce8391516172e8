"""Writes `web/src/wire/types.ts`: the messages and the names of methods that the web page uses.

They are those of `dragoman.schema`, and of the table of the host's own methods.

`python -m tools.web_types` writes it, `--check` compares it. The page reads what peers send with care, and these types
are what it may expect: a kind of update or a method that the schema does not have is an error of the page's types.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from msgspec import inspect

from dragoman.host.methods.table import METHODS
from dragoman.schema import v1
from dragoman.schema.methods import method_tables

FILE: Final = Path(__file__).parent.parent / "web" / "src" / "wire" / "types.ts"
# Members that the page sends or reads; what these need is written as well.
ROOTS: Final = (
    *("SessionUpdate", "ContentBlock", "ToolCallContent"),
    *("InitializeRequest", "InitializeResponse", "NewSessionRequest", "NewSessionResponse"),
    *("LoadSessionRequest", "LoadSessionResponse", "ResumeSessionRequest", "ResumeSessionResponse"),
    *("ListSessionsRequest", "ListSessionsResponse", "PromptRequest", "PromptResponse", "CancelNotification"),
    *("SetSessionModeRequest", "RequestPermissionRequest", "RequestPermissionResponse"),
)
_HEAD: Final = """\
/** Written by tools/web_types.py: messages of the protocol, names of its methods and of the host's. Do not edit. */
"""


class TypeScript:
    """Collects the interfaces that some types need."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}

    def lines(self) -> list[str]:
        """All declarations, by name."""
        return [self._written[name] for name in sorted(self._written)]

    def add(self, name: str, type: object) -> None:
        """Declare a type of the schema, and what it needs."""
        found = inspect.type_info(type)
        if isinstance(found, inspect.StructType):
            self._write(found)
        else:
            self._written[name] = f"export type {name} =\n  | " + "\n  | ".join(self._members(found)) + ";"

    def _members(self, type: inspect.Type) -> list[str]:
        parts = type.types if isinstance(type, inspect.UnionType) else (type,)
        return list(dict.fromkeys(self._write(part) for part in parts))

    def _write(self, type: inspect.Type) -> str:
        match type:
            case inspect.StructType():
                return self._struct(type)
            case inspect.UnionType():
                return " | ".join(self._members(type))
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.CollectionType():
                inner = self._write(type.item_type)
                return f"({inner})[]" if " | " in inner else f"{inner}[]"
            case inspect.DictType():
                return f"Record<string, {self._write(type.value_type)}>"
            case inspect.LiteralType():
                return " | ".join(f'"{value}"' for value in type.values)
            case _:
                return _PLAIN.get(type.__class__.__name__, "unknown")

    def _struct(self, type: inspect.StructType) -> str:
        name = type.cls.__name__
        if name not in self._written:
            self._written[name] = ""  # it may need itself
            members = []
            if type.tag_field is not None:
                members.append(f'  {type.tag_field}: "{type.tag}";')
            for field in type.fields:
                mark = "" if field.required else "?"
                members.append(f"  {field.encode_name}{mark}: {self._write(field.type)};")
            self._written[name] = "\n".join([f"export interface {name} {{", *members, "}"])
        return name


_PLAIN: Final = {
    "StrType": "string",
    "IntType": "number",
    "FloatType": "number",
    "BoolType": "boolean",
    "NoneType": "null",
}


def text() -> str:
    """Return what the file has to hold."""
    types = TypeScript()
    for name in ROOTS:
        types.add(name, getattr(v1, name))
    tables = method_tables(1)
    names: dict[str, Any] = {
        "AgentMethod": (*tables.agent, *tables.protocol),
        "ClientMethod": (*tables.client, *tables.protocol),
        "HostMethod": [name for name in METHODS if name.startswith("_")],
    }
    unions = [
        f"export type {name} =\n" + "\n".join(f'  | "{method}"' for method in sorted(set(methods))) + ";"
        for name, methods in names.items()
    ]
    return "\n\n".join([_HEAD.rstrip(), *types.lines(), *unions]) + "\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        if not FILE.is_file() or FILE.read_text() != text():
            print(f"{FILE}: not what tools/web_types.py writes; run `python -m tools.web_types`", file=sys.stderr)
            return 1
        return 0
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
