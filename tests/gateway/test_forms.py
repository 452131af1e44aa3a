"""Sound, images and files in forms, by the official client: passed on to the agents that take them."""

import openai
import pytest
from remote import GOOD
from test_interfaces import RESPONSE, able

from bot_orch.service.loops import ToolLoops

FILE = {"id": "file-7", "object": "file", "bytes": 4, "created_at": 1, "filename": "a.txt", "purpose": "user_data"}
UPLOAD = {"file": ("a.txt", b"\x00\r\n\xff", "text/plain"), "purpose": "user_data"}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [],
    "usage": {"input_tokens": 1},
    "model": "m-1",
}
USES = {
    "chat/completions": ("messages", {"type": "file", "file": {"file_id": "file-7"}}, GOOD),
    "responses": ("input", {"type": "input_file", "file_id": "file-7"}, {"document": RESPONSE}),
    "messages": (
        "messages",
        {"type": "document", "source": {"type": "file", "file_id": "file-7"}},
        {"document": MESSAGE},
    ),
}


def test_sound_is_written_down_by_an_agent_that_can(endpoint, serve, agent, client):
    url = endpoint.script({"document": {"text": "hello", "usage": {"type": "duration", "seconds": 3}}})
    service = serve(able(agent(url), "transcriptions"), agent(endpoint.script(GOOD), "chats"))
    sound = ("s.wav", b"RIFF\r\n--\x00\xff", "audio/wav")
    said = client(service).audio.transcriptions.with_raw_response.create(
        model="auto",
        file=sound,
        timestamp_granularities=["word", "segment"],
        extra_body={"bot_orch": {"kind": "call"}},
    )
    assert said.parse().text == "hello"
    (seen,) = endpoint.seen(url)
    form = seen["document"]["form"]
    assert seen["path"].endswith("/v1/audio/transcriptions") and 'name="model"\r\n\r\nm\r\n' in form
    assert 'filename="s.wav"' in form and "audio/wav\r\n\r\nRIFF\r\n--\x00\xff\r\n--" in form
    assert form.count('name="timestamp_granularities[]"') == 2 and "bot_orch" not in form
    made = service.get(f"/v1/decisions/{said.headers['x-bot-orch-decision-id']}").json()
    assert made["kind"] == "call"


def test_subtitles_keep_their_type(endpoint, serve, agent):
    url = endpoint.script({"bytes": b"WEBVTT\n".hex(), "type": "text/vtt"})
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nauto\r\n'
    form += b'--x\r\nContent-Disposition: form-data; name="file"; filename="s.wav"\r\n\r\nRIFF\r\n--x--\r\n'
    told = serve(able(agent(url), "translations")).request("POST", "/v1/audio/translations", raw=form)
    assert told.body == b"WEBVTT\n" and told.headers["content-type"] == "text/vtt"


def test_images_are_changed(endpoint, serve, agent, client):
    url = endpoint.script({"document": {"created": 1, "data": [{"b64_json": "aGk="}]}})
    images = [("a.png", b"one"), ("b.png", b"two")]
    changed = client(serve(able(agent(url), "image_edits"))).images.edit(model="auto", image=images, prompt="blue")
    assert changed.data[0].b64_json == "aGk="
    assert endpoint.seen(url)[0]["document"]["form"].count("filename=") == 2


@pytest.mark.parametrize("path", USES)
def test_a_request_with_a_file_goes_to_the_agent_that_has_it(endpoint, serve, agent, client, path):
    field, part, answer = USES[path]
    other, keeps = endpoint.script(answer), endpoint.script({"document": FILE}, answer)
    spoken = path.split("/")[0]
    service = serve(
        able(agent(other, "other"), spoken), able(agent(keeps, "keeps"), spoken, "files"), router="floor: 0.5"
    )
    assert client(service).files.create(**UPLOAD).id == "file-7"
    form = endpoint.seen(keeps)[0]["document"]["form"]
    assert "\r\n\r\n\x00\r\n\xff\r\n--" in form and 'name="model"' not in form
    for number in range(6):
        if number == 3:
            service.call(lambda: setattr(service.runtime, "loops", ToolLoops()))  # as after a restart: the log knows
        body = {"model": "auto", field: [{"role": "user", "content": [part]}]}
        used = service.post(f"/v1/{path}", body)
        assert (used.status, used.headers["x-bot-orch-agent"], used.headers["x-bot-orch-propensity"]) == (
            200,
            "keeps",
            "1.0",
        )
    assert not endpoint.seen(other)


def test_files_of_an_agent_that_speaks_messages(endpoint, serve, agent, client):
    url = endpoint.script({"document": FILE})
    service = serve(able(agent(url), "files").replace("kind: openai", "kind: anthropic"))
    assert client(service).files.create(**UPLOAD).id == "file-7"
    assert endpoint.seen(url)[0]["path"].endswith("/v1/files")


@pytest.mark.parametrize("body", [b"{}", b"", b"--", b"--x\r\n\r\n--x--", b"--x\r\n" * 200, b"--x--"])
def test_what_is_no_form_is_refused(endpoint, serve, agent, body):
    service = serve(able(agent(endpoint.script(GOOD)), "files"))
    refused = service.request("POST", "/v1/files", raw=body)
    assert (refused.status, refused.json()["error"]["code"]) == (400, "not_a_form")


def test_a_form_needs_its_file_and_is_not_streamed(endpoint, serve, agent, client):
    through = client(serve(able(agent(endpoint.script(GOOD)), "transcriptions", "images")))
    with pytest.raises(openai.BadRequestError, match="must be a file"):
        through.audio.transcriptions.create(model="auto", file=("s.wav", b""))
    with pytest.raises(openai.BadRequestError, match="not streamed"):
        through.audio.transcriptions.create(model="auto", file=("s.wav", b"x"), stream=True)
    with pytest.raises(openai.BadRequestError, match="not streamed"):
        through.images.generate(model="auto", prompt="x", stream=True)
