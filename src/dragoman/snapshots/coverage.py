"""Which paths of a tree belong to its snapshots.

Left out are `.git`, what ignore files say, and well-known folders of installed and generated files where no ignore file
exists. A file that git tracks is always in, as git does it. Reads ignore files and git's index; does not walk.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from dragoman.policy.paths import is_strictly_below
from dragoman.snapshots.git_files import GitBase, Repository, find_repository, repository_at
from dragoman.snapshots.git_index import IndexDeclined
from dragoman.workspace.ignore import IgnoreStack

GIT: Final = ".git"
IGNORE_FILES: Final = (".gitignore", ".ignore")
_COVERED: Final = (True, False)
BUILT_IN: Final = frozenset({"node_modules", ".venv", "venv", "target", "dist", "build", "__pycache__"})


class FolderRules(NamedTuple):
    """What applies to the names of one folder."""

    stack: IgnoreStack
    base: GitBase | None
    before: str  # what to put before a path, and how many of its characters to leave out, to look it up in `base`
    cut: int
    is_ignored: bool
    is_open: bool = False  # every file in it belongs to the snapshots

    def tracked_path(self, path: str) -> str:
        return self.before + path[self.cut :]


class Coverage:
    """The rules of one tree during one scan.

    Args:
        root: the real path of the tree.
        left_out: absolute paths that never belong to it, such as the store itself.
        uses_index: whether git's index is read. Without it every name that ignore files exclude is left out.
    """

    def __init__(self, root: str, *, left_out: frozenset[str] = frozenset(), uses_index: bool = True) -> None:
        self._root = root
        self._left_out = frozenset(path for path in left_out if is_strictly_below(path, root))
        self._uses_index = uses_index
        self._folders: dict[str, FolderRules] = {}
        self._bases: dict[str, GitBase | None] = {}
        self.repository: Repository | None = find_repository(root)
        self.declined: list[str] = []
        stack = IgnoreStack.above(root, IGNORE_FILES)
        self._has_built_in = not stack
        self._top_stack = stack

    @property
    def bases(self) -> list[GitBase]:
        """The indexes that were read."""
        return [base for base in self._bases.values() if base is not None]

    def of_root(self) -> FolderRules:
        known = self._folders.get("")
        if known is None:
            repository = self.repository
            base, before = None, ""
            if repository is not None:
                base = self._base(repository)
                inner = os.path.relpath(self._root, repository.worktree)
                before = "" if inner == "." else inner + "/"
            known = FolderRules(
                self._top_stack, base, before, 0, is_ignored=False, is_open=self._is_open(self._top_stack)
            )
            self._folders[""] = known
        return known

    def inside(self, above: FolderRules, folder: str, *, has_rules: bool, is_repository: bool) -> FolderRules:
        """The rules of a folder, from those of the folder above it."""
        rules = above
        if has_rules or is_repository:
            place = os.path.join(self._root, folder)
            stack = above.stack.inside(
                place, folder, has_rules=has_rules, is_repository=is_repository, names=IGNORE_FILES
            )
            rules = rules._replace(stack=stack, is_open=not above.is_ignored and self._is_open(stack))
            if is_repository:
                repository = repository_at(place)
                base = None if repository is None else self._base(repository)
                cut = len(folder) + 1
                rules = FolderRules(stack, base, "", cut, is_ignored=False, is_open=self._is_open(stack))
        self._folders[folder] = rules
        return rules

    def of(self, folder: str) -> FolderRules:
        """The rules of a folder that was not reached by a walk."""
        known = self._folders.get(folder)
        if known is not None:
            return known
        if not folder:
            return self.of_root()
        parent, _, name = folder.rpartition("/")
        above = self.of(parent)
        if above.is_ignored or self._is_ignored(above, folder, name, is_folder=True):
            above = above._replace(is_ignored=True, is_open=False)
        is_repository = os.path.lexists(os.path.join(self._root, folder, GIT))
        return self.inside(above, folder, has_rules=True, is_repository=is_repository)

    def covers(self, rules: FolderRules, path: str, name: str, *, is_folder: bool) -> tuple[bool, bool]:
        """Whether a path belongs to the snapshots, and for a folder whether only tracked files in it do."""
        if self._left_out and os.path.join(self._root, path) in self._left_out:
            return False, True
        if not rules.is_ignored and not self._is_ignored(rules, path, name, is_folder=is_folder):
            return _COVERED
        base = rules.base
        if base is None:
            return False, True
        inner = rules.tracked_path(path)
        return (base.has_below(inner) if is_folder else inner in base.entries), True

    def _is_open(self, stack: IgnoreStack) -> bool:
        return not stack and not self._left_out

    def _is_ignored(self, rules: FolderRules, path: str, name: str, *, is_folder: bool) -> bool:
        decision = rules.stack.decide(path, name, is_folder) if rules.stack else None
        if decision is None:
            return self._has_built_in and is_folder and name in BUILT_IN
        return decision

    def _base(self, repository: Repository) -> GitBase | None:
        if not self._uses_index:
            return None
        if repository.worktree not in self._bases:
            base: GitBase | None = None
            try:
                base = GitBase(repository)
            except IndexDeclined as reason:
                self.declined.append(f"{repository.worktree}: {reason}")
            self._bases[repository.worktree] = base
        return self._bases[repository.worktree]
