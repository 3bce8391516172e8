"""`python -m tools.schema [--check]`: write the generated files, or compare them and build every decoder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.schema.choices import VERSIONS
from tools.schema.files import generated_files, stale_files

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is stale or illegal")
    options = parser.parse_args(arguments)
    targets = {version: ROOT / "src" / "dragoman" / "schema" / f"v{version}" for version in VERSIONS}
    if not options.check:
        for version, target in targets.items():
            target.mkdir(parents=True, exist_ok=True)
            for name, text in generated_files(version).items():
                (target / name).write_text(text)
        return 0
    stale = [target / name for version, target in targets.items() for name in stale_files(target, version)]
    for path in stale:
        print(f"{path}: not what tools/schema writes; run `python -m tools.schema`", file=sys.stderr)
    if stale:
        return 1
    sys.path.insert(0, str(ROOT / "src"))
    from tools.schema.check import broken_types  # only now: it imports what was just compared

    broken = broken_types()
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
