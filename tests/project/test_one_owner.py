"""A job that many packages need has one owner: nothing else does it in its own way."""

from __future__ import annotations

import ast
import re

from tests.project.sources import PACKAGE, own_sources, text_of, tree_of

# Files are replaced by `workspace/atomic.py`, in one step and without a trace of what failed. The others give a name to
# something else, or stand below it.
MOVES = {
    "workspace/atomic.py": "the owner",
    "workspace/replace.py": "files of the user's project, by the owner's `replace_at`",
    "process/sandbox/tripwire.py": "puts back files and links below an open folder; on the same line as the owner",
    "snapshots/restore.py": "links",
    "registry/archive.py": "a folder",
    "host/local/daemon.py": "a socket",
    "cli/agent_log.py": "the log before this one",
    "host/serving/backup.py": "whole folders: a backup gets its name, and a restored one its place",
}

# A module of ours is imported by a statement, in a function if it is to be loaded late: type checkers, the test of the
# layers and a search for the uses of a name see that, and none of them sees a string.
IMPORTS_BY_NAME = {
    "_lazy.py": "exports of packages; `test_exports` compares them with the statements for type checkers",
    "cli/table.py": "one module for each verb, by its name",
    "conformance/case.py": "one module for each group of cases, by its name",
    "builtin/tools/built_in.py": "tools, which `tools.descriptions` imports all of",
    "builtin/tools/preload.py": "a list of modules that are loaded in the background",
    "host/local/preload.py": "the same, in a host",
    "host/methods/table.py": "one module for each group of methods; `tests/host/test_methods.py` loads every handler",
    "cli/startup.py": "the standard library",
    "adapters/imported.py": "what the user names",
    "adapters/frameworks/missing.py": "extras",
    "scripting/tools/agent_tool.py": "extras",
    "tui/screen/conversation/pictures/decoding.py": "extras",
}

# JSON that people and programs read is written by `cli/console.py` (`write_json`, `json_of`, `json_text`), which
# escapes what a terminal acts on or does not show. The others write no JSON to a stream.
WRITES_JSON = {
    "cli/console.py": "the owner",
    "cli/wrap/editor_settings.py": "words of Lua and Emacs Lisp",
    "cli/agents/display.py": "a word of a command line, quoted",
}


CAN_MOVE = re.compile(r"\b(?:os|shutil)\s*\.\s*(?:renames?|move)\b|\.\s*replace\b")


def moves_of(tree: ast.AST) -> list[int]:
    """The lines in which a file gets the name of another: `os.replace(a, b)`, `os.rename(a, b)`, `path.replace(b)`."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, owner = node.func.attr, node.func.value
        is_os = isinstance(owner, ast.Name) and owner.id in ("os", "shutil")
        # A text is replaced by two texts, and a member of the state by an object of its own: neither is a path.
        is_path = name == "replace" and len(node.args) == 1 and not node.keywords and "path" in ast.unparse(owner)
        if (is_os and name in ("replace", "rename", "renames", "move")) or is_path:
            found.append(node.lineno)
    return found


def test_files_are_replaced_by_one_owner() -> None:
    candidates = (path for path in own_sources() if CAN_MOVE.search(text_of(path)))  # parsing all takes seconds
    found = {path: moves for path in candidates if (moves := moves_of(tree_of(path)))}
    names = {path.relative_to(PACKAGE).as_posix(): moves for path, moves in found.items()}
    others = [f"{name}:{moves[0]}" for name, moves in names.items() if name not in MOVES]
    assert not others, f"use `write_private` or `replace_file`: {', '.join(others)}"


def test_whether_a_path_is_below_a_folder_is_compared_by_one_owner() -> None:
    """The owner is `policy/paths.py`: a folder is below itself, and everything is below `/`."""
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in own_sources()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if re.search(r"def _?is_(strictly_)?below\(", line) or re.search(r'startswith\(.*rstrip\("/"\) \+ "/"\)', line)
        if path.parent != PACKAGE / "policy"
    ]
    assert not found, f"use `is_below` or `is_strictly_below`: {', '.join(found)}"


def test_our_own_modules_are_imported_by_statements() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in own_sources() if "import_module(" in text_of(path)}
    assert names == IMPORTS_BY_NAME.keys()


def test_json_is_written_by_one_owner() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in own_sources()
        if path.is_relative_to(PACKAGE / "cli") and re.search(r"json\.(dumps|dump|format)\(", text_of(path))
    }
    assert found == WRITES_JSON.keys(), "use `write_json` or `json_of` of `cli/console.py`"


def test_every_form_of_replacing_is_seen() -> None:
    source = "os.replace(a, b)\nos.rename(a, b)\npath.replace(b)\ntext.replace('a', 'b')\nreplace(record, name='x')\n"
    assert moves_of(ast.parse(source)) == [1, 2, 3]
