"""Modules that have moved are named by their new place, everywhere."""

from __future__ import annotations

import importlib.util
from textwrap import dedent

import pytest

from tools.moves import MOVED, ROOT, rewrite, rewrite_file, sources

TABLE = {"dragoman.old.thing": "dragoman.new.idea", "dragoman.old.other": "dragoman.old.thing_else"}


def test_every_file_uses_the_new_names() -> None:
    left = [str(path.relative_to(ROOT)) for path in sources(ROOT) if rewrite_file(path, MOVED, writes=False)]
    assert not left, "run python -m tools.moves, then ruff check --fix"


@pytest.mark.parametrize("new", sorted(set(MOVED.values())))
def test_modules_are_where_the_table_says(new: str) -> None:
    assert importlib.util.find_spec(new) is not None


@pytest.mark.parametrize("old", MOVED)
def test_no_module_stays_at_its_old_place(old: str) -> None:
    path = ROOT / "src" / old.replace(".", "/")
    assert not path.with_suffix(".py").exists()
    assert not path.exists()


def test_imports_strings_and_places_to_patch_are_rewritten_once() -> None:
    source = dedent("""
        import dragoman.old.thing
        from dragoman.old import thing as thing_of_old
        from dragoman.old import other
        from dragoman.old.thing import Name, thing
        LATER = ("dragoman.old.thing", "é", "dragoman.old.thinger", "see dragoman.old.thing")
        def late() -> None:
            from dragoman.old.thing import Name
            patch("dragoman.old.thing.Name")
    """)
    once = rewrite(source, TABLE)
    assert once == dedent("""
        import dragoman.new.idea
        from dragoman.new import idea as thing_of_old
        from dragoman.old import thing_else as other
        from dragoman.new.idea import Name, thing
        LATER = ("dragoman.new.idea", "é", "dragoman.old.thinger", "see dragoman.old.thing")
        def late() -> None:
            from dragoman.new.idea import Name
            patch("dragoman.new.idea.Name")
    """)
    assert rewrite(once, TABLE) == once


def test_import_of_several_modules_is_left_to_the_user() -> None:
    with pytest.raises(ValueError, match="by a statement of its own"):
        rewrite("from dragoman.old import thing, another\n", TABLE)
