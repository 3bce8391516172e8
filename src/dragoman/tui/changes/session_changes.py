"""What the turns of the conversation changed: finds their snapshots, for review, rewind and the plain client.

The host follows the turns of every agent; its snapshots are files of this user, so that they are read here. They are
kept under the id that the agent gave to the session, which the host's list has.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.state.message import Message

if TYPE_CHECKING:
    from dragoman.snapshots.session_turns import SessionTurns
    from dragoman.tui.conversation import HostedConversation


class NotFollowed(DragomanError):
    """There are no snapshots of a session; the text says why and what to do."""


async def hosted_facts(conversation: HostedConversation) -> dict[str, Any]:
    """Return what the host says of the session of a conversation.

    Raises:
        NotFollowed: there is no session, or no host.
    """
    remote = conversation.remote
    if remote is None or conversation.session_id is None:
        raise NotFollowed("there is no session yet: the host is not connected")
    async for session in remote.sessions():
        if session.session_id == conversation.session_id:
            meta = session.meta if isinstance(session.meta, dict) else {}
            facts = meta.get("dragoman")
            return dict(facts) if isinstance(facts, dict) else {}
    raise NotFollowed(f"the host does not list session {conversation.session_id}")


async def find_changes(conversation: HostedConversation) -> SessionTurns:
    """Return the followed turns of a conversation. Raises: NotFollowed."""
    facts = await hosted_facts(conversation)
    session_turns = await asyncio.to_thread(
        _find, str(facts.get("agentSessionId") or ""), str(facts.get("agent") or "")
    )
    if session_turns is None:
        raise NotFollowed("no turn of this session was followed yet; changes are known when a turn has ended")
    return session_turns


def _find(session_id: str, agent: str) -> SessionTurns | None:
    from dragoman.host.local.agents import ledger_name
    from dragoman.runs.changes import snapshots_folder
    from dragoman.snapshots.session_turns import find_session_turns

    return find_session_turns(snapshots_folder(), session_id, ledger_name(agent))


def places_taken_back(conversation: HostedConversation, session_turns: SessionTurns) -> frozenset[int]:
    """Return the places in the timeline of prompts whose turns changed something that is taken back. Blocks.

    A turn is found by its prompt, from the last one on: not every turn was followed, nor is every one loaded.
    """
    active = session_turns.active()
    prompts = [
        (place, item.text.strip())
        for place, item in enumerate(conversation.state.timeline)
        if isinstance(item, Message) and item.role == "user"
    ]
    found: set[int] = set()
    for records in reversed(session_turns.turns):
        begins = records[0].prompt.strip()
        at = next((at for at in reversed(range(len(prompts))) if prompts[at][1].startswith(begins)), None)
        if at is None:
            continue
        if any(record.changes for record in records) and records[0].uid not in active:
            found.add(prompts[at][0])
        del prompts[at:]
    return frozenset(found)


def turn_number(session_turns: SessionTurns, text: str) -> int:
    """Return the turn that a user typed, counted from 1; without one, the last turn that changed something.

    Raises:
        NotFollowed: there is no such turn.
    """
    word = text.strip()
    if not word:
        changed = [number for number, turn in enumerate(session_turns.turns, 1) if any(part.changes for part in turn)]
        return changed[-1] if changed else len(session_turns.turns)
    if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= len(session_turns.turns):
        raise NotFollowed(
            f"this session has turns 1 to {len(session_turns.turns)}; without one it is the last with changes"
        )
    return int(word)
