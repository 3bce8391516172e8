"""Files with long outputs belong to their session: the model can read them, and they are deleted with it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.builtin.test_kill import agent_at, allow


async def test_long_output_is_kept_for_its_session_only_and_deleted_with_it(tmp_path: Path) -> None:
    orphan = tmp_path / "output" / "ses_gone"
    orphan.mkdir(parents=True)
    (orphan / "call.txt").write_text("of a session that was deleted when the disk was busy")
    (tmp_path / "outside").mkdir()
    (tmp_path / "output" / "ses_link").symlink_to(tmp_path / "outside")
    async with agent_at(tmp_path, permission=allow) as agent:
        session = await agent.new_session(tmp_path)
        other = await agent.new_session(tmp_path)
        for each in (session, other):
            await each.prompt("run seq 60000")
        kept = [tmp_path / "output" / each.id for each in (session, other)]
        for folder in kept:
            (file,) = folder.iterdir()
            assert file.read_text().startswith("1\n2\n")
            assert file.stat().st_mode & 0o077 == 0
            assert folder.stat().st_mode & 0o077 == 0
        await agent.delete_session(session.id)
        assert sorted(os.listdir(tmp_path / "output")) == sorted([other.id, "ses_link"])
        assert (tmp_path / "outside").is_dir()
