"""A small inventory on the command line."""

import argparse
import json
import sys
from pathlib import Path


def load(path):
    """Return the items of a file; an empty list if there is no file."""
    return json.loads(Path(path).read_text()) if Path(path).exists() else []


def save(path, items):
    """Write the items."""
    Path(path).write_text(json.dumps(items, indent=2) + "\n")


def list_items(arguments):
    """Print every item."""
    for item in load(arguments.file):
        print(f"{item['name']}: {item['count']}")
    return 0


def add_item(arguments):
    """Add an item, or more of it."""
    items = load(arguments.file)
    for item in items:
        if item["name"] == arguments.name:
            item["count"] += arguments.count
            break
    else:
        items.append({"name": arguments.name, "count": arguments.count})
    save(arguments.file, items)
    return 0


def remove_item(arguments):
    """Remove an item; exit code 1 if it is not there."""
    items = load(arguments.file)
    kept = [item for item in items if item["name"] != arguments.name]
    if len(kept) == len(items):
        print(f"inventory: there is no {arguments.name}", file=sys.stderr)
        return 1
    save(arguments.file, kept)
    return 0


def build_parser():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="inventory", description="Keeps count of things.")
    parser.add_argument("--file", default="inventory.json", help="the file to use")
    commands = parser.add_subparsers(required=True)
    listed = commands.add_parser("list", help="print every item")
    listed.set_defaults(run=list_items)
    added = commands.add_parser("add", help="add an item")
    added.add_argument("name")
    added.add_argument("count", type=int, nargs="?", default=1)
    added.set_defaults(run=add_item)
    removed = commands.add_parser("remove", help="remove an item")
    removed.add_argument("name")
    removed.set_defaults(run=remove_item)
    return parser


def main(words=None):
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(words)
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
