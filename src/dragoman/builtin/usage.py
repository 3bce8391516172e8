"""What a session used: the sums over its model calls, those outside of turns included, and how an answer reports them.

Owns the counting of calls next to the turns, such as the one that finds a title, and the form of
`_meta.dragoman.usage`. In stable v1 the answer of a prompt has no member for usage (rule 191), so it stands in `_meta`;
an agent that offers unstable parts fills the member `usage` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.builtin.turn import Spending, Spent
from dragoman.schema import v1
from dragoman.store.sessions import UsageRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.store.sessions import Store


class SessionUsage:
    """The usage of one open session. Raises StoreError where it reads or writes."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self.spent = Spent()
        self.spending = Spending()
        """What the running turn used so far; its loops, and those of subagents, add to it."""
        self._delegated: list[UsageRow] = []
        self._last_message_id: str | None = None
        self._is_turn_running = False
        self._extra: list[UsageRow] = []

    async def load(self) -> None:
        self.spent = Spent().plus(await self._store.usage(self._session_id))

    def begin_turn(self) -> None:
        self._is_turn_running = True
        self.spending = Spending(self.spent)

    def end_turn(self, message_id: str, calls: Sequence[UsageRow]) -> list[UsageRow]:
        """Count the calls of a turn. Returns the rows to store with its message: these, and those made next to it."""
        rows = [*calls, *self._extra]
        self._extra.clear()
        self._is_turn_running = False
        self._last_message_id = message_id
        for call in calls:
            self.spent = self.spent.plus(call)
        return rows

    def delegate(self, call: UsageRow) -> None:
        """Count a call of a subagent, which is stored with the subagent's message."""
        self.spent = self.spent.plus(call)
        self.spending.add(call)
        self._delegated.append(call)

    def take_delegated(self) -> list[UsageRow]:
        """Take the calls of subagents since this was last asked, for the report of a turn."""
        taken, self._delegated = self._delegated, []
        return taken

    async def add(self, call: UsageRow) -> None:
        """Count a call that no loop of a turn made. It belongs to the running turn, or else to the last one."""
        self.spent = self.spent.plus(call)
        if self._is_turn_running or self._last_message_id is None:
            self._extra.append(call)
        else:
            await self._store.add_usage(self._session_id, self._last_message_id, call)


def total(calls: Iterable[UsageRow]) -> UsageRow | None:
    """Return the sum of some calls, None without any. Its cost is None if the price of no call is known."""
    rows = list(calls)
    if not rows:
        return None
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return UsageRow(
        "",
        sum(row.input for row in rows),
        sum(row.output for row in rows),
        sum(row.reasoning for row in rows),
        sum(row.cache_read for row in rows),
        sum(row.cache_write for row in rows),
        sum(costs) if costs else None,
    )


def protocol_usage(turn: UsageRow) -> v1.Usage:
    """Return the usage of a turn as the protocol's unstable member: five counts that do not overlap, and their sum."""
    counts = (turn.input, turn.output, turn.reasoning, turn.cache_read, turn.cache_write)
    return v1.Usage(sum(counts), *counts)


def meta_usage(turn: UsageRow, session: Spent) -> dict[str, Any]:
    """Return the same for `_meta.dragoman.usage`.

    It has the cost of the turn and of the session as far as it is known.
    """
    counts = protocol_usage(turn)
    found: dict[str, Any] = {
        "totalTokens": counts.total_tokens,
        "inputTokens": counts.input_tokens,
        "outputTokens": counts.output_tokens,
        "thoughtTokens": counts.thought_tokens,
        "cachedReadTokens": counts.cached_read_tokens,
        "cachedWriteTokens": counts.cached_write_tokens,
    }
    for name, cost in (("cost", turn.cost_usd), ("sessionCost", session.cost_usd)):
        if cost is not None:
            found[name] = {"amount": cost, "currency": "USD"}
    return found
