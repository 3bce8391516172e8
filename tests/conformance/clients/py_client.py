"""A one-prompt client on the official Python SDK, judged by `dragoman check client`.

`py_client.py FOLDER AGENT` opens a session in FOLDER, sends one prompt and leaves. It offers the files below FOLDER, as
a user of the SDK would write that, and leaves everything else to the SDK. It does not depend on dragoman.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema as s

# What the SDK's base class leaves empty answers with null; to a type checker it is abstract.
Base: Any = acp.Client


def read(path: Path, line: int | None, limit: int | None) -> str:
    if not path.exists():
        raise acp.RequestError.resource_not_found(str(path))
    start = (line or 1) - 1
    return "".join(path.read_text().splitlines(keepends=True)[start : None if limit is None else start + limit])


def write(path: Path, text: str) -> None:
    path.write_text(text)


class OnePromptClient(Base):  # type: ignore[misc]  # see above
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find(self, path: str) -> Path:
        if not Path(path).is_relative_to(self.folder):
            raise acp.RequestError.invalid_params({"path": path})
        return Path(path)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        pass

    async def request_permission(self, options: list[s.PermissionOption], **_: Any) -> s.RequestPermissionResponse:
        allowed = next((option for option in options if option.kind == "allow_once"), None)
        if allowed is None:
            return s.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        return s.RequestPermissionResponse(outcome=s.AllowedOutcome(outcome="selected", option_id=allowed.option_id))

    async def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> s.ReadTextFileResponse:
        return s.ReadTextFileResponse(content=read(self.find(path), line, limit))

    async def write_text_file(self, path: str, content: str, **_: Any) -> s.WriteTextFileResponse:
        write(self.find(path), content)
        return s.WriteTextFileResponse()


async def main(folder: str, *command: str) -> None:
    # The SDK's own default for stderr, a pipe that is not read, is part of what is judged.
    async with acp.spawn_agent_process(OnePromptClient(folder), *command, env=dict(os.environ)) as (agent, _):
        await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=s.ClientCapabilities(
                fs=s.FileSystemCapabilities(read_text_file=True, write_text_file=True)
            ),
            client_info=s.Implementation(name="py-one-prompt", version="1"),
        )
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("Hello")])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
