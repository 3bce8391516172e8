"""A client that takes over a session during a turn: it answers the open question, cancels the turn, and may leave."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Session
from dragoman.errors import ConnectionClosed
from dragoman.schema import v1
from tests.builtin.http_service import Answers, Service, ask

BOUND = 20


class Undecided:
    """A user who answers questions and forms when told to, and records that a question was withdrawn."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.withdrawn = asyncio.Event()

    async def __call__(self, request: v1.RequestPermissionRequest, session: Session) -> str:
        await self._wait()
        return request.options[0].option_id

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> v1.AcceptElicitation:
        await self._wait()
        return v1.AcceptElicitation({"answer": "red"})

    async def _wait(self) -> None:
        self.asked.set()
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.withdrawn.set()
            raise


class Chooses:
    """A user who fills in every form with one answer."""

    def __init__(self, answer: str) -> None:
        self.messages: list[str] = []
        self._answer = answer

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> v1.AcceptElicitation:
        assert session is not None, "the form came before the client knew the session"
        self.messages.append(request.message)
        return v1.AcceptElicitation({"answer": self._answer})


def begin(session: Session, *lines: str) -> asyncio.Future[str]:
    """Send a prompt; the result is why its turn stopped."""

    async def run() -> str:
        return (await session.prompt("\n".join(lines))).stop_reason

    return asyncio.ensure_future(run())


def statuses(session: Session) -> list[str | None]:
    return [call.status for call in session.state.tool_calls.values()]


async def ends(watching: Any, session: Session, *statuses_at_end: str) -> None:
    """Wait until the calls of a session have these statuses."""
    async with asyncio.timeout(BOUND):
        while statuses(session) != list(statuses_at_end):
            await anext(watching)


@pytest.mark.parametrize("way", ["load_session", "resume_session"])
async def test_an_open_question_moves_to_the_client_that_takes_over(tmp_path: Path, way: str) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Answers("reject_once")
    async with service.client(permission=old_user) as first, service.client(permission=new_user) as second:
        session = await first.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "run touch hi", "say {result}"))
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await getattr(second, way)(session.id, service.project)
        async with asyncio.timeout(BOUND):
            await old_user.withdrawn.wait()
            await turn
        assert [request.tool_call.title for request in new_user.asked] == ["`touch hi`"]
        assert statuses(taken) == ["failed"]
        assert not (service.project / "hi").exists()


async def test_an_answer_of_the_client_before_counts_for_nothing(tmp_path: Path) -> None:
    service, new_user = Service(tmp_path), Undecided()
    held: list[bool] = []

    class Stubborn(Undecided):
        """Does not take back its question: its answer comes late."""

        async def _wait(self) -> None:
            self.asked.set()
            waiting = asyncio.ensure_future(self.answer.wait())
            while not waiting.done():
                try:
                    await asyncio.shield(waiting)
                except asyncio.CancelledError:
                    held.append(True)

    old_user = Stubborn()
    async with service.client(permission=old_user) as first, service.client(permission=new_user) as second:
        session = await first.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "run touch hi", "say done"))
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await second.resume_session(session.id, service.project)
        watching = taken.updates()
        await asyncio.wait_for(new_user.asked.wait(), BOUND)
        old_user.answer.set()
        await first.list_sessions()  # answered after the late answer was read
        assert held
        assert not turn.done()
        assert statuses(taken) == ["pending"]
        new_user.answer.set()
        await ends(watching, taken, "completed")
        await asyncio.wait_for(turn, BOUND)


async def test_a_form_moves_to_the_client_that_takes_over(tmp_path: Path) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Chooses("blue")
    async with service.client(elicitation=old_user) as first, service.client(elicitation=new_user) as second:
        session = await first.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "question Which colour? | red | blue", "say {result}"))
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await second.resume_session(session.id, service.project)
        async with asyncio.timeout(BOUND):
            await old_user.withdrawn.wait()
            await turn
        assert new_user.messages == ["Which colour?"]
        assert taken.state.messages[-1].text == "The user answered: blue"


async def test_a_form_that_the_client_taking_over_cannot_show_is_asked_in_words(tmp_path: Path) -> None:
    service, old_user = Service(tmp_path), Undecided()
    async with service.client(elicitation=old_user) as first, service.client() as second:
        session = await first.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "question Which colour? | red | blue", "say never"))
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await second.resume_session(session.id, service.project)
        await asyncio.wait_for(turn, BOUND)
        assert taken.state.messages[-1].text == "Which colour?\n\n- red\n- blue"


async def test_the_client_that_took_over_cancels_the_turn_and_the_prompts_behind_it(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    os.mkfifo(service.project / "gate")
    async with service.client() as first, service.client() as second:
        session = await first.new_session(service.project)
        turn = session.prompt("run cat gate\nsay never")
        async for update in turn:
            if isinstance(update, v1.ToolCallUpdate) and update.status == "in_progress":
                break
        prompt = v1.PromptRequest(session.id, [v1.TextContent("say behind it")])
        waiting = asyncio.ensure_future(first.call("session/prompt", prompt))
        await first.list_sessions()  # answered after the second prompt was read
        taken = await second.resume_session(session.id, service.project)
        watching = taken.updates()
        await taken.cancel()
        async with asyncio.timeout(BOUND):
            assert [(await turn).stop_reason, (await waiting).stop_reason] == ["cancelled", "cancelled"]
        await ends(watching, taken, "failed")
        await ask(taken, "say still usable")
        assert taken.state.messages[-1].text == "still usable"


async def test_the_client_that_took_over_cancels_the_turn_that_asks_it(tmp_path: Path) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Undecided()
    async with service.client(permission=old_user) as first, service.client(permission=new_user) as second:
        session = await first.new_session(service.project)
        turn = begin(session, "run touch hi", "say never")
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await second.resume_session(session.id, service.project)
        await asyncio.wait_for(new_user.asked.wait(), BOUND)
        await taken.cancel()
        async with asyncio.timeout(BOUND):
            assert await turn == "cancelled"
        assert not (service.project / "hi").exists()


async def test_its_own_turn_is_cancelled_once_by_a_client_that_took_over(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    os.mkfifo(service.project / "gate")
    async with service.client() as first, service.client() as second:
        session = await first.new_session(service.project)
        taken = await second.load_session(session.id, service.project)
        turn = taken.prompt("run cat gate\nsay never")
        async for update in turn:
            if isinstance(update, v1.ToolCallUpdate) and update.status == "in_progress":
                break
        await taken.cancel()
        async with asyncio.timeout(BOUND):
            assert (await turn).stop_reason == "cancelled"


async def test_closing_a_session_that_was_taken_over_ends_its_turn(tmp_path: Path) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Undecided()
    async with service.client(permission=old_user) as first, service.client(permission=new_user) as second:
        session = await first.new_session(service.project)
        turn = begin(session, "run touch hi", "say never")
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        taken = await second.resume_session(session.id, service.project)
        await asyncio.wait_for(new_user.asked.wait(), BOUND)
        await second.close_session(taken.id)
        async with asyncio.timeout(BOUND):
            assert await turn == "cancelled"


async def test_a_client_that_leaves_with_the_question_open_after_it_was_taken_over_changes_nothing(
    tmp_path: Path,
) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Undecided()
    async with service.client(permission=new_user) as second:
        async with service.session(permission=old_user, is_leaving=True) as session:
            turn = begin(session, "run touch hi", "say done")
            await asyncio.wait_for(old_user.asked.wait(), BOUND)
            taken = await second.resume_session(session.id, service.project)
            watching = taken.updates()
        await asyncio.wait_for(new_user.asked.wait(), BOUND)
        new_user.answer.set()
        await ends(watching, taken, "completed")
        with pytest.raises(ConnectionClosed):
            await turn


async def test_a_question_is_refused_when_the_client_that_took_over_leaves(tmp_path: Path) -> None:
    service, old_user, new_user = Service(tmp_path), Undecided(), Undecided()
    async with service.client(permission=old_user) as first:
        session = await first.new_session(service.project)
        turn = begin(session, "run touch hi", "say went on")
        await asyncio.wait_for(old_user.asked.wait(), BOUND)
        async with service.client(permission=new_user, is_leaving=True) as second:
            await second.resume_session(session.id, service.project)
            await asyncio.wait_for(new_user.asked.wait(), BOUND)
        async with asyncio.timeout(BOUND):
            assert await turn == "end_turn"
        await first.close_session(session.id)
        back = await first.load_session(session.id, service.project)
        assert statuses(back) == ["failed"]
        assert back.state.messages[-1].text == "went on"
        assert not (service.project / "hi").exists()


async def test_a_client_that_leaves_while_another_one_opens_its_session_leaves_a_usable_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.builtin.session import OpenSession

    service, old_user = Service(tmp_path), Undecided()
    reading, may_read, read_past = asyncio.Event(), asyncio.Event(), OpenSession.read_past

    async def slow(session: OpenSession) -> None:
        reading.set()
        await may_read.wait()
        await read_past(session)

    async with service.client("allow_once") as second:
        async with service.session(permission=old_user, is_leaving=True) as session:
            turn = begin(session, "run touch hi", "say done")
            await asyncio.wait_for(old_user.asked.wait(), BOUND)
            monkeypatch.setattr(OpenSession, "read_past", slow)
            taking = asyncio.ensure_future(second.load_session(session.id, service.project))
            await asyncio.wait_for(reading.wait(), BOUND)
        with pytest.raises(ConnectionClosed):
            await turn
        may_read.set()
        taken = await asyncio.wait_for(taking, BOUND)
        assert statuses(taken) == ["failed"]  # the client that sent the prompt left before another one had the session
        await ask(taken, "say usable")
        assert taken.state.messages[-1].text == "usable"
