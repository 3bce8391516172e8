"""The sending of session updates, with one method for each kind.

Owns how updates become frames. Streaming text is the hot path of the whole package: a frame is a prefix prepared once
per session, the text, and a suffix; no objects are built for it. Does not know what a turn is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.agent.outgoing import check_notice, for_relayed
from dragoman.agent.values import check_value
from dragoman.errors import CapabilityError, LocalProtocolError
from dragoman.schema import UNSET, Unknown, encode, v1
from dragoman.wire import NOTIFICATION_END, notification_start

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from msgspec import UnsetType

    from dragoman.agent.outgoing import UpdateChecks
    from dragoman.agent.settings import OfferedSettings
    from dragoman.agent.values import PlanStatusValue, SeverityValue

_UPDATE_END = b"}" + NOTIFICATION_END
_TEXT_END = b"}}" + _UPDATE_END


class UpdateSender:
    """The sender of `session/update`.

    Every method returns once the update is queued, in order, before anything sent later.
    """

    __slots__ = ("_breathe", "_checks", "_message_start", "_post", "_prefix", "_settings", "_thought_start")

    # Takes a frame; True asks the sender to call `_breathe` before the next. Where updates may not be sent, this is
    # replaced by a function that raises the reason, so that the hot path needs no checks.
    _post: Callable[[bytes], bool]
    _breathe: Callable[[], Awaitable[None]]
    _checks: UpdateChecks
    _settings: OfferedSettings
    _prefix: bytes
    _message_start: bytes
    _thought_start: bytes

    def _send_as(self, other: UpdateSender) -> None:
        """Send updates of the same session, under the same checks, as `other` does."""
        self._post, self._breathe = other._post, other._breathe
        self._checks, self._settings = other._checks, other._settings
        self._prefix = other._prefix
        self._message_start, self._thought_start = other._message_start, other._thought_start

    def _address(self, session_id: str) -> None:
        self._prefix = notification_start("session/update") + b'{"sessionId":' + encode(session_id) + b',"update":'
        self._message_start = self._prefix + b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
        self._thought_start = self._prefix + b'{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":'

    async def say(self, content: str | v1.ContentBlock, *, message_id: str | UnsetType = UNSET) -> None:
        """Stream a piece of the agent's message. Pieces with the same `message_id` are one message (rule 212)."""
        if type(content) is str and message_id is UNSET:
            if self._post(self._message_start + encode(content) + _TEXT_END):
                await self._breathe()
        else:
            await self.update(v1.AgentMessageChunk(_block(content), message_id))

    async def think(self, content: str | v1.ContentBlock, *, message_id: str | UnsetType = UNSET) -> None:
        """Stream a piece of the agent's thoughts."""
        if type(content) is str and message_id is UNSET:
            if self._post(self._thought_start + encode(content) + _TEXT_END):
                await self._breathe()
        else:
            await self.update(v1.AgentThoughtChunk(_block(content), message_id))

    async def plan(self, entries: Iterable[v1.PlanEntry | tuple[str, PlanStatusValue] | str]) -> None:
        """Show the whole plan, in place of the former one (rule 265).

        Args:
            entries: Each is a PlanEntry, a (content, status) pair, or just the content, which is then pending.

        Raises:
            LocalProtocolError: A status or priority is not one of the protocol's.
        """
        await self.update(v1.Plan([_entry(entry) for entry in entries]))

    async def usage(self, used: int, size: int, cost: v1.Cost | tuple[float, str] | None = None) -> None:
        """Show how many tokens of the context window are in use, and what the session has cost so far.

        Args:
            used: Tokens in use.
            size: Tokens that fit into the context window.
            cost: An amount and a currency, such as `(0.25, "EUR")`.

        Raises:
            LocalProtocolError: A number is negative, or the currency is not an ISO 4217 code (rules 215, 216).
        """
        if used < 0 or size < 0:
            raise LocalProtocolError(f"usage {used} of {size}: neither can be negative")
        price: v1.Cost | UnsetType = UNSET
        if cost is not None:
            price = v1.Cost(*cost) if isinstance(cost, tuple) else cost
            currency = price.currency
            if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
                raise LocalProtocolError(f"currency {currency!r} is not an ISO 4217 code such as 'EUR'")
        await self.update(v1.UsageUpdate(used, size, price))

    async def commands(self, commands: Iterable[v1.AvailableCommand | tuple[str, str]]) -> None:
        """Replace the list of slash commands. A command is an AvailableCommand or a (name, description) pair."""
        listed = [v1.AvailableCommand(*entry) if isinstance(entry, tuple) else entry for entry in commands]
        await self.update(v1.AvailableCommandsUpdate(listed))

    async def mode(self, mode_id: str) -> None:
        """Report that the agent changed the session's mode. An option of category `mode` changes with it (rule 167).

        Raises: LocalProtocolError for a mode the session does not offer.
        """
        await self.update(v1.CurrentModeUpdate(mode_id))
        follow = self._settings.follow_mode()
        if follow is not None:
            await self.update(follow)

    async def config_options(self, options: Iterable[v1.SessionConfigOption]) -> None:
        """Replace the list of config options.

        Boolean ones are left out for a client that cannot show them; the mode changes with an option of category `mode`
        (rule 167).

        Raises: LocalProtocolError when a current value is not among the values of its option.
        """
        await self.update(v1.ConfigOptionUpdate(list(options)))
        follow = self._settings.follow_options()
        if follow is not None:
            await self.update(follow)

    async def title(self, title: str | None) -> None:
        """Set the title of the session; None removes it."""
        await self.update(v1.SessionInfoUpdate(title=title))

    async def notice(self, severity: SeverityValue, title: str, description: str | None = None) -> bool:
        """Show a notice next to the conversation. Return False if this client cannot show one; nothing was sent then.

        Raises: LocalProtocolError for an empty title (rule 219), or a severity that the protocol does not name.
        """
        if not title:
            raise LocalProtocolError("a notice needs a title")
        check_value("NoticeSeverity", severity, "the severity of a notice")
        if self._checks[v1.Notice] is not check_notice:
            return False
        await self.update(v1.Notice(severity, title, UNSET if description is None else description))
        return True

    async def update(self, update: v1.SessionUpdate, *, relayed: bool = False) -> None:
        """Send any session update.

        Args:
            update: The update. Values that the schema lists have to be among the listed ones.
            relayed: The update was received from another agent: its values are passed on, whatever they are.

        Raises:
            LocalProtocolError: It is not an update, is not stable or breaks a rule.
            CapabilityError: The client did not advertise this kind of update.
        """
        if self._submit(update, is_relayed=relayed):
            await self._breathe()

    async def update_all(self, updates: Iterable[v1.SessionUpdate]) -> None:
        """Send several updates directly one after the other, as a history that is repeated.

        An update of a kind that the client did not advertise is left out. Give at most some hundred at a time: nothing
        else is sent or received meanwhile.

        Raises: LocalProtocolError for what is not an update, is not stable or breaks a rule.
        """
        must_breathe = False
        for update in updates:
            with suppress(CapabilityError):
                must_breathe = self._submit(update) or must_breathe
        if must_breathe:
            await self._breathe()

    def _submit(self, update: v1.SessionUpdate, *, is_relayed: bool = False) -> bool:
        """Check and post an update without waiting; True asks the sender to call `_breathe`."""
        try:
            check = self._checks[type(update)]
        except KeyError:
            raise LocalProtocolError(f"{type(update).__name__} is not a session update") from None
        if is_relayed:
            check = for_relayed(check)
        if check is not None:
            update = check(self._settings, update)
        return self._post(b"".join((self._prefix, encode(update), _UPDATE_END)))


def _block(content: str | v1.ContentBlock) -> v1.ContentBlock:
    if isinstance(content, str):
        return v1.TextContent(content)
    if not isinstance(content, (v1.ContentBlock, Unknown)):
        raise LocalProtocolError(f"{type(content).__name__} is not a content block")
    return content


def _entry(entry: v1.PlanEntry | tuple[str, PlanStatusValue] | str) -> v1.PlanEntry:
    if isinstance(entry, v1.PlanEntry):
        return entry
    content, status = (entry, "pending") if isinstance(entry, str) else entry
    return v1.PlanEntry(content, "medium", status)
