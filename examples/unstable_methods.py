"""Methods that are not in the stable protocol yet: both sides have to opt in, and they may change with any release.

$ python examples/unstable_methods.py
forked: True
status: open
title: Notes
archived, and back
providers: main (anthropic)
logged in: not_required
"""

from __future__ import annotations

import asyncio

from dragoman import Agent, Turn
from dragoman.agent import AgentSession
from dragoman.schema import v1
from dragoman.testing import linked

agent = Agent("early", version="1.0", unstable=True)
archived: set[str] = set()
providers = {"main": v1.ProviderInfo("main", ["anthropic"], True)}


@agent.prompt
async def reply(turn: Turn) -> None:
    await turn.say("hello")


@agent.fork_session
async def fork(session_id: str, session: AgentSession) -> None:
    session.extra["forked_from"] = session_id


@agent.session_status
async def status() -> v1.SessionStatusResponse:
    return v1.SessionStatusResponse("open")


@agent.set_session_title
async def set_title(title: str) -> v1.SetSessionTitleResponse:
    return v1.SetSessionTitleResponse(title.strip())


@agent.archive_session
async def archive(session_id: str) -> None:
    archived.add(session_id)


@agent.unarchive_session
async def unarchive(session_id: str) -> None:
    archived.remove(session_id)


@agent.list_providers
async def list_providers() -> v1.ListProvidersResponse:
    return v1.ListProvidersResponse(list(providers.values()))


@agent.set_provider
async def set_provider(provider_id: str) -> None:
    providers[provider_id] = v1.ProviderInfo(provider_id, ["openai"], False)


@agent.disable_provider
async def disable_provider(provider_id: str) -> None:
    del providers[provider_id]


@agent.auth_status
async def auth_status() -> v1.AuthStatusResponse:
    return v1.AuthStatusResponse("not_required")


async def main() -> None:
    async with linked(agent, unstable=True) as remote:
        session = await remote.new_session(cwd=".")
        fork = await remote.fork_session(session.id, cwd=".")
        print("forked:", fork.id != session.id)
        print("status:", (await remote.call("session/status", v1.SessionStatusRequest(session.id))).status)
        titled = await remote.call("session/set_title", v1.SetSessionTitleRequest(session.id, " Notes "))
        print("title:", titled.title)
        await remote.call("session/archive", v1.ArchiveSessionRequest(session.id))
        await remote.call("session/unarchive", v1.UnarchiveSessionRequest(session.id))
        print("archived, and back")
        await remote.call("providers/set", v1.SetProviderRequest("extra", "openai", "https://example.com"))
        await remote.call("providers/disable", v1.DisableProviderRequest("extra"))
        listed = (await remote.call("providers/list", v1.ListProvidersRequest())).providers
        print("providers:", ", ".join(f"{each.provider_id} ({', '.join(each.supported)})" for each in listed))
        print("logged in:", (await remote.call("auth/status", v1.AuthStatusRequest())).state)


if __name__ == "__main__":
    asyncio.run(main())
