"""Writes the generated tables: where each name lives, the methods, the marks, known values, what is unstable."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tools.schema.choices import VERSIONS
from tools.schema.emitter import HEADER, homes
from tools.schema.model import Method, Record, Scalar, Schema


def index_module(schema: Schema) -> str:
    """`__init__.py`: every name, its module loaded on first use."""
    names = {home: [*listed, *(["UpdateFrame"] if home == "session" else [])] for home, listed in homes(schema).items()}
    names["values"] = ["KNOWN_VALUES"]
    lines = [
        HEADER.format(
            title=f"ACP v{schema.version}: every generated name; the module that defines it is loaded on first use."
        )
    ]
    lines += ["from typing import TYPE_CHECKING, Any, Final", "", "if TYPE_CHECKING:"]
    for home in sorted(names):
        lines.append(f"    from dragoman.schema.v{schema.version}.{home} import (")
        lines += [f"        {name}," for name in sorted(names[home], key=str.lower)]
        lines.append("    )")
    lines += ["", "_NAMES: Final = {"]
    for home, listed in names.items():
        lines.append(_tuple(home, _sorted(listed)))
    lines += ["}", "_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names}", ""]
    lines.append("__all__ = [")
    lines += [f'    "{name}",' for name in _sorted(name for listed in names.values() for name in listed)]
    lines += ["]", "", LOADER]
    return "\n".join(lines)


LOADER = """if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = __import__(f"{__name__}.{home}", fromlist=("*",))
        globals().update({member: getattr(module, member) for member in _NAMES[home]})
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
"""


def _tuple(key: str, names: list[str]) -> str:
    if len(names) == 1:
        return f'    "{key}": ("{names[0]}",),'
    return f'    "{key}": (\n' + "".join(f'        "{name}",\n' for name in names) + "    ),"


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (not name.isupper(), name))


ROW = '''Kind: TypeAlias = Literal["request", "notification"]
Row: TypeAlias = tuple[str, str, Kind, str, str | None, bool, str | None, bool, bool]
"""name, side, kind, params, result, is_stable, gate, is_session_scoped, null_result_ok"""'''


def methods_module(schema: Schema, stable: Schema) -> str:
    """`methods.py`: rows of the method table, type names as text so that reading it defines no type."""
    known = {(method.side, method.name) for method in stable.methods}
    lines = [HEADER.format(title=f"ACP v{schema.version}: the rows of the method table.")]
    lines += ["from typing import Final, Literal, TypeAlias", ""]
    lines += [ROW]
    lines += ["", "ROWS: Final[tuple[Row, ...]] = ("]
    lines += [_row(schema, method, (method.side, method.name) in known) for method in schema.methods]
    lines += [")", ""]
    return "\n".join(lines)


def _row(schema: Schema, method: Method, is_stable: bool) -> str:
    result = schema.records.get(method.result or "")
    null_ok = result is not None and not any(member.is_required for member in result.members)
    cells = (
        method.name,
        method.side,
        method.kind,
        method.params,
        method.result,
        is_stable,
        VERSIONS[schema.version].gates.get((method.side, method.name)),
        method.is_session_scoped,
        null_ok,
    )
    texts = [json.dumps(cell) if isinstance(cell, str) else repr(cell) for cell in cells]
    line = f"    ({', '.join(texts)}),"
    if len(line) <= 120:
        return line
    return "    (\n" + "".join(f"        {text},\n" for text in texts) + "    ),"


def values_module(schema: Schema) -> str:
    """`values.py`: the values this version of the schema names for each open enum."""
    lines = [HEADER.format(title=f"ACP v{schema.version}: the values the schema names; any other string is legal too.")]
    lines += ["from typing import Final", "", "KNOWN_VALUES: Final[dict[str, frozenset[str]]] = {"]
    for name, enum in sorted(schema.enums.items()):
        values = ", ".join(json.dumps(value) for value in enum.values)
        line = f'    "{name}": frozenset({{{values}}}),'
        if len(line) > 120:
            line = f'    "{name}": frozenset(\n        {{{values}}}\n    ),'
        lines.append(line)
    return "\n".join([*lines, "}", ""])


def marks_module(schema: Schema) -> str:
    """`marks.py`: what the forgiving pass may do to which member."""
    lines = [HEADER.format(title=f"ACP v{schema.version}: the marks of the forgiving pass.")]
    lines += ["from typing import Final", "", "MARKS: Final[dict[str, dict[str, str]]] = {"]
    for name in sorted(schema.records):
        marks = {
            member.wire: member.marks
            for member in schema.members_of(name)
            if member.marks and member.type != Scalar("Any")
        }
        if marks == {"_meta": "e"}:
            continue
        if marks:
            lines.append(f'    "{name}": {_dict(marks, f"{name}: ")},')
    lines += ["}", '"""Record -> wire name -> e: default on error, s: skip invalid items, n: default on null.']
    lines += ["", "`_meta` is always `e` and left out where it is alone.", '"""', ""]
    lines.append(
        f"LENIENT_NAMES: Final[dict[str, dict[str, str]]] = {json.dumps(VERSIONS[schema.version].lenient_names)}"
    )
    return "\n".join([*lines, ""])


def _dict(items: dict[str, str], prefix: str) -> str:
    inline = "{" + ", ".join(f'"{key}": "{value}"' for key, value in items.items()) + "}"
    if len(inline) + len(prefix) + 7 <= 120:
        return inline
    return "{\n" + "".join(f'        "{key}": "{value}",\n' for key, value in items.items()) + "    }"


def stability_module(schema: Schema, stable: Schema) -> str:
    """`stability.py`: what the unstable schema has and the stable one has not."""
    types = {name for name in schema.records if name not in stable.records}
    members = {
        name: new
        for name in schema.records
        if name in stable.records and (new := _new_members(schema.records[name], stable.records[name]))
    }
    within = {name for name in schema.records if {*types, *members} & set(schema.closure([name]))}
    lines = [HEADER.format(title=f"ACP v{schema.version}: what only the unstable schema has.")]
    lines += ["from typing import Final", ""]
    lines += _names("TYPES", types) + _names("WITHIN", within)
    lines += [
        '"""Types that are unstable or can hold something that is; in any other there is nothing to look for."""',
        "",
    ]
    lines += ["MEMBERS: Final[dict[str, tuple[str, ...]]] = {"]
    lines += [_tuple(name, new) for name, new in sorted(members.items())]
    return "\n".join([*lines, "}", ""])


def _names(variable: str, names: Iterable[str]) -> list[str]:
    return [f"{variable}: Final = (", *(f'    "{name}",' for name in sorted(names)), ")"]


def _new_members(record: Record, stable: Record) -> list[str]:
    known = {member.wire for member in stable.members}
    return [member.attribute for member in record.members if member.wire not in known]
