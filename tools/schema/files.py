"""Which files are generated, and whether those on disk are the ones that would be written."""

from __future__ import annotations

from pathlib import Path

from tools.schema.choices import VERSIONS
from tools.schema.emitter import types_module
from tools.schema.reader import read_schema
from tools.schema.tables import index_module, marks_module, methods_module, stability_module, values_module

HERE = Path(__file__).resolve().parent


def generated_files(version: int = 1) -> dict[str, str]:
    """File name -> text, for everything below `src/dragoman/schema/v1`, or another version's folder."""
    schema = read_schema(HERE / f"acp-v{version}-unstable.json", version)
    stable = read_schema(HERE / f"acp-v{version}.json", version)
    files = {f"{home}.py": types_module(schema, home) for home in VERSIONS[version].homes}
    files["__init__.py"] = index_module(schema)
    files["methods.py"] = methods_module(schema, stable)
    files["values.py"] = values_module(schema)
    files["marks.py"] = marks_module(schema)
    files["stability.py"] = stability_module(schema, stable)
    return files


def stale_files(target: Path, version: int = 1) -> list[str]:
    """Names that are missing below `target`, differ from what would be written, or should not be there."""
    files = generated_files(version)
    found = {path.name for path in target.glob("*.py")}
    stale = {name for name, text in files.items() if name not in found or (target / name).read_text() != text}
    return sorted(stale | (found - set(files)))
