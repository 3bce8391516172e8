"""What sessions are called: by their user, by a small model, by their first prompt; and that a name stays."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from dragoman.builtin.context.titles import LENGTH, ask_for_title, title_of
from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import Model, ModelError, ModelRequest, StepEnd
from dragoman.client import Session
from dragoman.errors import ConfigError, RequestError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from tests.builtin.http_service import Service, ask


class Small(Model):
    """A small model that gives one answer, when it may."""

    name, context_tokens, is_scripted = "small", None, False

    def __init__(self, answer: str = "", failure: BaseException | None = None) -> None:
        self._answer, self._failure = answer, failure
        self.go = asyncio.Event()
        self.go.set()
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        self.requests.append(request)
        await self.go.wait()
        if self._failure is not None:
            raise self._failure
        for word in self._answer.split(" "):
            yield c.TextDelta("1", f"{word} ")
        yield StepEnd("stop")


Naming = Callable[..., Small]


@pytest.fixture
def naming(monkeypatch: pytest.MonkeyPatch) -> Naming:
    def use(answer: str = "", failure: BaseException | None = None) -> Small:
        small = Small(answer, failure)
        monkeypatch.setattr(
            "dragoman.builtin.context.titles.find_model", lambda name: small if name == "small" else find_model(name)
        )
        return small

    return use


async def until_title(session: Session, title: str) -> None:
    watching = session.updates()
    while session.state.title != title:
        await anext(watching)


def test_the_beginning_of_a_prompt_is_a_title() -> None:
    assert title_of("  Fix \n the  bug ") == "Fix the bug"
    long = title_of("word " * 40)
    assert len(long) <= LENGTH
    assert long.endswith("word…")


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"Fix the parser."', "Fix the parser"),
        ("\n# Fix the parser\n\nBecause it is broken.", "Fix the parser"),
        ("**Fix `parse()`**", "Fix `parse()"),
        ("", ""),
        ("long " * 40, title_of("long " * 40)),
    ],
)
async def test_a_title_is_one_plain_line(answer: str, title: str) -> None:
    assert (await ask_for_title(Small(answer), "prompt")).text == title


async def test_a_model_that_fails_or_takes_too_long_gives_no_title() -> None:
    assert (await ask_for_title(Small(failure=ModelError("no")), "prompt")).text == ""
    slow = Small("late")
    slow.go.clear()
    assert (await ask_for_title(slow, "prompt", seconds=0.01)).text == ""


async def test_the_small_model_names_a_session_once_from_its_first_prompt(tmp_path: Path, naming: Naming) -> None:
    service, small = Service(tmp_path, title_model="small"), naming("Greeting")
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        await ask(session, "/help")
        assert small.requests == []
        await ask(session, "say hello " + "x" * 10_000)
        await until_title(session, "Greeting")
        await ask(session, "say more")
        assert len(small.requests) == 1
        (request,) = small.requests
        assert not request.tools
        assert len(str(request.messages[0].parts)) < 5000
        assert [info.title async for info in agent.sessions()] == ["Greeting"]


async def test_until_it_answers_the_prompt_does(tmp_path: Path, naming: Naming) -> None:
    service, small = Service(tmp_path, title_model="small"), naming("Greeting")
    small.go.clear()
    async with service.session() as session:
        await ask(session, "say hello")
        assert session.state.title == "say hello"
        small.go.set()
        await until_title(session, "Greeting")


async def test_a_small_model_that_never_answers_delays_neither_turn_nor_close(tmp_path: Path, naming: Naming) -> None:
    service, small = Service(tmp_path, title_model="small"), naming("Greeting")
    small.go.clear()
    async with service.session() as session:
        await ask(session, "say hello")
    async with service.client() as agent:
        assert [info.title async for info in agent.sessions()] == ["say hello"]


@pytest.mark.parametrize("failure", [ModelError("no key"), ConfigError("no such model")])
async def test_without_an_answer_the_first_prompt_stays_the_title(
    tmp_path: Path, naming: Naming, failure: Exception
) -> None:
    naming(failure=failure)
    async with Service(tmp_path, title_model="small").session() as session:
        await ask(session, "say hello")
        await ask(session, "say more")
        assert session.state.title == "say hello"


async def test_a_title_of_the_users_is_never_replaced(tmp_path: Path, naming: Naming) -> None:
    service, small = Service(tmp_path, title_model="small", unstable=True), naming("Greeting")
    small.go.clear()
    async with service.client(unstable=True) as agent:
        session = await agent.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "say hello"))
        answer = await agent.call("session/set_title", v1.SetSessionTitleRequest(session.id, "  My  own "))
        assert answer.title == "My own"
        small.go.set()
        await turn
        await ask(session, "say more")
        assert session.state.title == "My own"
        assert [info.title async for info in agent.sessions()] == ["My own"]


async def test_a_session_that_is_not_open_can_be_named_too(tmp_path: Path) -> None:
    service = Service(tmp_path, unstable=True)
    async with service.client(unstable=True) as agent:
        id = (await agent.new_session(service.project)).id
        await agent.close_session(id)
        await agent.call("session/set_title", v1.SetSessionTitleRequest(id, "Named"))
        session = await agent.resume_session(id, service.project)
        await ask(session, "say hello")
        assert [info.title async for info in agent.sessions()] == ["Named"]
        for wrong in (v1.SetSessionTitleRequest("ses_none", "x"), v1.SetSessionTitleRequest(id, " ")):
            with pytest.raises(RequestError):
                await agent.call("session/set_title", wrong)


async def test_the_update_with_a_title_has_the_time_of_the_change(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        updates = await ask(session, "say hello")
        (sent,) = [update for update in updates if isinstance(update, v1.SessionInfoUpdate)]
        assert sent.updated_at
    async with Service(tmp_path).client() as agent:
        (info,) = [info async for info in agent.sessions()]
        assert info.updated_at == sent.updated_at


async def test_a_call_for_a_title_that_is_cancelled_elsewhere_is_logged_and_disturbs_nothing(
    tmp_path: Path, naming: Naming, caplog: pytest.LogCaptureFixture
) -> None:
    naming(failure=asyncio.CancelledError())
    async with Service(tmp_path, title_model="small").session() as session:
        await ask(session, "say hello")
        assert session.state.text == "hello"
        assert (await session.prompt("say again")).stop_reason == "end_turn"
    assert "no title from small: the call was cancelled without a request" in caplog.text
