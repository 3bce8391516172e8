"""An image that the agent reads reaches the model, the client, and a client that loads the session later."""

import base64
from pathlib import Path

import pytest

from dragoman.builtin.models.wire_forms.conversation import result_of
from dragoman.schema import v1
from dragoman.uistream.messages import ToolPart
from tests.builtin.http_service import Service, ask, recording_model
from tests.builtin.tools.test_read_media import PNG


async def test_an_image_reaches_the_model_and_the_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, service = recording_model(monkeypatch), Service(tmp_path)
    (service.project / "a.png").write_bytes(PNG)
    encoded = base64.b64encode(PNG).decode()
    async with service.client() as remote, service.client() as later:
        session = await remote.new_session(service.project)
        await ask(session, "read a.png", "say {result}")
        [call] = [part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolPart)]
        [media] = result_of(call).media
        assert (media.data, media.media_type) == (encoded, "image/png")
        loaded = await later.load_session(session.id, service.project)
        for each in (session, loaded):
            [shown] = each.state.tool_calls.values()
            images = [
                item.content
                for item in shown.content or ()
                if isinstance(item, v1.Content) and isinstance(item.content, v1.ImageContent)
            ]
            assert [image.data for image in images] == [encoded]
