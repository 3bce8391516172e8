"""The questions before something is written: one for each kind, and one for each thing that could permit or reveal.

Loaded when a user is asked.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.cli.console import write_error
from dragoman.cli.foreign.display import KIND_TITLES
from dragoman.errors import ConfigError
from dragoman.foreign.proposal import KINDS, Appended, NewMember
from dragoman.foreign.write import appended_text, write
from dragoman.text.patches import git_patch
from dragoman.text.terminal import harmless
from dragoman.text.visible import label, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Proposal

_MOST_LINES = 60


class Confirmation:
    """The questions about the proposals, their writing, and what became of each.

    Args:
        is_sure: write what is ready without asking; nothing that needs a question of its own is written then.
    """

    def __init__(self, places: Places, *, is_sure: bool, can_ask: bool) -> None:
        self.has_failed = False
        self._places = places
        self._is_sure = is_sure
        self._can_ask = can_ask and not is_sure

    def run(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Return the proposals, those that were written as imported."""
        done: dict[int, Proposal] = {}
        for kind in KINDS:
            ready = [
                (at, proposal)
                for at, proposal in enumerate(proposals)
                if proposal.kind == kind and proposal.state == "ready"
            ]
            if ready and (self._is_sure or self._agrees_to_kind(kind, [proposal for _, proposal in ready])):
                done |= {at: self._write(proposal) for at, proposal in ready}
            for at, proposal in enumerate(proposals):
                if kind == "model" and any(one.kind == "model" for one in done.values()):
                    break  # there is one model
                if proposal.kind == kind and proposal.state in ("question", "manual") and self._agrees_to(proposal):
                    done[at] = self._write(proposal)
        return [done.get(at, proposal) for at, proposal in enumerate(proposals)]

    def _write(self, proposal: Proposal) -> Proposal:
        has_keys = any(isinstance(change, NewMember) and change.stored is not None for change in proposal.changes)
        with_keys = has_keys and self._can_ask and self._asks(proposal.keys_question)
        try:
            write(proposal, self._places, with_keys=with_keys)
        except ConfigError as error:
            self.has_failed = True
            write_error(f"{proposal.name}: {error}")
            return proposal
        return replace(proposal, state="imported")

    def _agrees_to_kind(self, kind: str, proposals: Sequence[Proposal]) -> bool:
        if not self._can_ask:
            return False
        for proposal in proposals:
            for change in proposal.changes:
                if isinstance(change, Appended):
                    _show_change(change)
        what = KIND_TITLES[kind] if len(proposals) > 1 else KIND_TITLES[kind].removesuffix("s")
        return self._asks(f"Import {len(proposals)} {what}?")

    def _agrees_to(self, proposal: Proposal) -> bool:
        if not self._can_ask or not proposal.question or not proposal.changes:
            return False
        sys.stderr.write(f"{label(proposal.name, 100)}\n")
        return self._asks(proposal.question)

    def _asks(self, question: str) -> bool:
        sys.stderr.write(f"{spelled(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show_change(change: Appended) -> None:
    before, after = appended_text(change)
    lines = git_patch(str(change.path), before or None, after).splitlines()
    shown = [
        *lines[:_MOST_LINES],
        *([f"... {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []),
    ]
    sys.stderr.write(harmless("\n".join(shown)) + "\n")
