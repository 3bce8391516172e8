"""A copy of a project for one session to work in, whose changes are merged into the project or discarded.

With git it is a linked worktree without a branch, otherwise a plain copy. Uncommitted work of the user is in it, too.
Does not know agents or sessions. Read `worktree.py` first, then `merge.py`.
"""

from dragoman.worktrees.changes import WorktreeChange, changes_of, patch_of
from dragoman.worktrees.git import WorktreeError
from dragoman.worktrees.make import make_worktree
from dragoman.worktrees.merge import MergePlan, apply_merge, plan_merge
from dragoman.worktrees.worktree import (
    Worktree,
    discard_worktree,
    find_worktree,
    list_worktrees,
    project_of,
)

__all__ = [
    "MergePlan",
    "Worktree",
    "WorktreeChange",
    "WorktreeError",
    "apply_merge",
    "changes_of",
    "discard_worktree",
    "find_worktree",
    "list_worktrees",
    "make_worktree",
    "patch_of",
    "plan_merge",
    "project_of",
]
