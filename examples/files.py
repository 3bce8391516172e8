"""Files: the agent reads and writes through the client, which sees unsaved text and keeps every change.

$ python examples/files.py
read: unsaved
notes.txt: unsaved -> UNSAVED
outside: refused
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from dragoman import Agent, Session, Turn, rules
from dragoman.agent import ClientError
from dragoman.client import WorkspaceFiles
from dragoman.testing import linked
from dragoman.workspace import Workspace

agent = Agent("editor", version="1.0")


@agent.prompt
async def reply(turn: Turn) -> None:
    text = await turn.read_file("notes.txt")  # the client's text if it offers files, the disk's otherwise
    await turn.say(text.strip())
    await turn.write_file("notes.txt", text.upper())
    try:
        await turn.read_file("/etc/hostname")
    except ClientError:
        await turn.think("refused")


async def main() -> None:
    opened: list[Workspace] = []

    def open_workspace(session: Session) -> Workspace:
        opened.append(Workspace([session.cwd]))
        opened[0].open_buffer(f"{session.cwd}/notes.txt", "unsaved\n")  # what an editor has and did not save
        return opened[0]

    policy = rules("edit:notes.txt")
    files = WorkspaceFiles(permissions=policy, open_workspace=open_workspace)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/notes.txt", "w") as file:  # noqa: ASYNC230  # a small file
            file.write("saved\n")
        async with linked(agent, permission=policy, files=files) as remote:
            session = await remote.new_session(cwd=folder)
            await session.prompt("go")
        print("read:", session.state.text)
        for change in opened[0].journal.net():
            before, after = ((text or b"").decode().strip() for text in (change.before, change.after))
            print(f"{Path(change.path).name}: {before} -> {after}")
        print("outside:", session.state.thoughts[0].text)


if __name__ == "__main__":
    asyncio.run(main())
