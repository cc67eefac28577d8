"""The hosted path on the wire: real openai client, real SDK Runner, real HTTP; each fault works or ends defined."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.exceptions import ModelTimeoutError

from app.models import ModelCallFailed, ModelChoice, choose_models
from app.settings import Settings
from handoffs.roster import AgentSpec, DeskSpec, Roster
from tests.fakes.openai_server import Call, Calls, Cut, Empty, Fail, Hang, RateLimit, Raw, Say, Step, fake_openai

SECRET = "sk-a-key-that-nobody-may-see"
APIS = ("responses", "chat_completions")


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    """Each claim holds for both of OpenAI's APIs."""
    return str(request.param)


class Desk:
    """One agent with two tools, run by the SDK against a scripted server."""

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice
        self.transfers: list[dict[str, Any]] = []
        self.deltas: list[str] = []

        @function_tool
        def track_parcel(order_number: str) -> str:
            """Where the parcel of an order is."""
            return f"Parcel of {order_number}: out for delivery."

        @function_tool
        def transfer_to_agent(agent_id: str, reason: str) -> str:
            """Hand the conversation on."""
            self.transfers.append({"agent_id": agent_id, "reason": reason})
            return "recorded"

        self.agent = Agent(name="triage", instructions="Help.", tools=[track_parcel, transfer_to_agent])

    async def run(self, text: str = "hello") -> str:
        config = RunConfig(
            model=self.choice.default_name, model_provider=self.choice.provider, model_settings=self.choice.settings
        )
        result = Runner.run_streamed(self.agent, text, run_config=config)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                self.deltas.append(event.data.delta)
        return str(result.final_output)


def hosted(base_url: str, api: str, **overrides: Any) -> ModelChoice:
    values: dict[str, Any] = {
        "openai_api": api,
        "model": "test-model",
        "model_timeout_s": 5.0,
        "openai_api_key": SECRET,
        **overrides,
    }
    settings = Settings(openai_base_url=base_url, **values)
    return choose_models(settings, ROSTER, no_encoder)


def no_encoder() -> Any:
    raise AssertionError("a hosted model needs no encoder")


async def run_script(script: Sequence[Step], api: str, **overrides: Any) -> tuple[str, Desk, list[dict[str, Any]]]:
    async with fake_openai(script) as server:
        choice = hosted(server.base_url, api, **overrides)
        desk = Desk(choice)
        try:
            answer = await desk.run()
        finally:
            await choice.provider.aclose()
        return answer, desk, [recorded.body for recorded in server.requests]


def spec(agent_id: str, **fields: Any) -> AgentSpec:
    return AgentSpec.model_validate({"id": agent_id, "intended_use": "Everything.", **fields})


ROSTER = Roster(desk=DeskSpec(name="Shop", start="triage"), agents={"triage": spec("triage")}, folder=Path())


async def test_a_streamed_answer_arrives_in_pieces_and_whole(api: str) -> None:
    """Text of a hosted model is streamed piece by piece and ends as the final answer."""
    answer, desk, requests = await run_script([Say("Your parcel comes on Friday.")], api)
    assert answer == "Your parcel comes on Friday."
    assert len(desk.deltas) > 1 and "".join(desk.deltas) == answer
    assert requests[0]["model"] == "test-model" and requests[0]["stream"] is True


async def test_a_tool_call_is_run_and_its_result_sent_back(api: str) -> None:
    """The model's function call runs our tool, and the next request carries the result under the same call id."""
    script: list[Step] = [Call("track_parcel", {"order_number": "A-10023"}), Say("It is out for delivery.")]
    answer, _, requests = await run_script(script, api)
    assert answer == "It is out for delivery."
    sent = requests[1]["input" if api == "responses" else "messages"]
    assert "Parcel of A-10023: out for delivery." in json.dumps(sent)
    assert "call_0001_0" in json.dumps(sent)


async def test_a_transfer_call_reaches_our_tool_with_its_arguments(api: str) -> None:
    """transfer_to_agent arrives as an ordinary function call, after text that the model said first."""
    call = Call("transfer_to_agent", {"agent_id": "billing", "reason": "charged twice"})
    _, desk, _ = await run_script([Calls([call], text="One moment."), Say("done")], api)
    assert desk.transfers == [{"agent_id": "billing", "reason": "charged twice"}]
    assert "".join(desk.deltas).startswith("One moment.")


async def test_two_calls_in_one_answer_both_get_results(api: str) -> None:
    """Parallel calls are all run, so that the history stays valid for the next request."""
    calls = [Call("track_parcel", {"order_number": "A-1"}), Call("track_parcel", {"order_number": "B-2"})]
    _, _, requests = await run_script([Calls(calls), Say("Both are on their way.")], api)
    assert "Parcel of A-1" in json.dumps(requests[1]) and "Parcel of B-2" in json.dumps(requests[1])


async def test_arguments_that_are_not_json_come_back_to_the_model_as_an_error(api: str) -> None:
    """A broken tool call is told to the model, which gets to try again; the run does not crash."""
    script: list[Step] = [Call("track_parcel", '{"order_number": '), Say("Which order do you mean?")]
    answer, _, requests = await run_script(script, api)
    assert answer == "Which order do you mean?"
    assert len(requests) == 2


async def test_429_is_tried_again_after_the_time_the_server_asks_for(api: str) -> None:
    """A rate limit with a short retry-after is invisible to the customer."""
    answer, _, requests = await run_script([RateLimit("0.05"), Say("Hello.")], api)
    assert answer == "Hello."
    assert len(requests) == 2


async def test_429_that_asks_for_too_long_a_wait_fails_at_once(api: str) -> None:
    """A customer does not wait an hour: a long retry-after is a failure now, and no second request is sent."""
    with pytest.raises(ModelCallFailed, match="too many requests") as caught:
        await run_script([RateLimit("3600"), Say("never sent")], api)
    assert caught.value.kind == "rate_limited" and caught.value.status_code == 429


async def test_500_is_tried_again(api: str) -> None:
    """One failure of the server is invisible to the customer."""
    answer, _, requests = await run_script([Fail(500), Say("Hello.")], api)
    assert answer == "Hello." and len(requests) == 2


async def test_500_again_and_again_ends_as_unavailable(api: str) -> None:
    """After `model_retries` more tries the failure is final and says what the server said."""
    with pytest.raises(ModelCallFailed, match=r"the server failed .*backend down") as caught:
        await run_script([Fail(500, "backend down")] * 2, api, model_retries=1)
    assert caught.value.kind == "unavailable"


@pytest.mark.parametrize(("status", "kind"), [(401, "key"), (403, "key"), (404, "unknown_model"), (400, "refused")])
async def test_errors_of_the_set_up_are_not_tried_again(api: str, status: int, kind: str) -> None:
    """A wrong key, model or request stays wrong: one request, one clear error."""
    with pytest.raises(ModelCallFailed) as caught:
        await run_script([Fail(status), Say("never sent")], api)
    assert caught.value.kind == kind


async def test_a_server_that_hangs_ends_as_a_timeout(api: str) -> None:
    """A server that takes the request and never answers costs the set time, once, and is then an error."""
    with pytest.raises((ModelCallFailed, ModelTimeoutError)) as caught:
        await run_script([Hang(), Say("never sent")], api, model_timeout_s=0.3)
    assert not isinstance(caught.value, ModelCallFailed) or caught.value.kind == "timeout"


async def test_a_stream_that_is_cut_ends_as_cut_and_is_not_said_twice(api: str) -> None:
    """Once a part was shown there is no second try: the customer would read the beginning twice."""
    with pytest.raises(ModelCallFailed, match="broke off") as caught:
        await run_script([Cut("Your parcel is now in"), Say("never sent")], api)
    assert caught.value.kind == "cut"


async def test_a_stream_that_stops_without_an_end_is_not_an_answer(api: str) -> None:
    """A proxy that closes cleanly in the middle leaves half a sentence; it is an error, not an answer."""
    with pytest.raises(ModelCallFailed, match="broke off") as caught:
        await run_script([Cut("Your parcel is now in", clean=True), Say("never sent")], api)
    assert caught.value.kind == "cut"


@pytest.mark.parametrize(
    "raw",
    [
        Raw(b"data: {not json\n\n"),
        Raw(b"\x00\xff\xfe\x80 garbage \xc3\x28\n\ndata: \xff\xff\n\n"),
        Raw(b"<html><body>502 Bad Gateway</body></html>", "text/html"),
        Raw(b'data: {"type": "no.such.event", "surprise": 1}\n\n'),
        Raw(b"data: [1, 2, 3]\n\n"),
        Raw(b""),
    ],
    ids=["half json", "binary", "html", "unknown event", "wrong json", "nothing"],
)
async def test_garbage_ends_in_a_defined_error(api: str, raw: Raw) -> None:
    """Whatever bytes a broken server sends, the run ends with a ModelCallFailed that names the model."""
    with pytest.raises(ModelCallFailed, match="model test-model: ") as caught:
        await run_script([raw, *[raw] * 3], api)
    assert caught.value.kind in ("garbage", "cut", "empty")


async def test_an_empty_answer_is_an_error_and_not_silence(api: str) -> None:
    """A complete answer without text or call would leave the customer alone; it is a failure like any other."""
    with pytest.raises(ModelCallFailed, match="empty answer") as caught:
        await run_script([Empty()], api)
    assert caught.value.kind == "empty"


async def test_a_server_that_is_not_there_ends_as_unreachable(api: str) -> None:
    """A dead OPENAI_BASE_URL is named as what it is."""
    async with fake_openai([]) as server:
        dead = server.base_url
    choice = hosted(dead, api, model_retries=0)
    with pytest.raises(ModelCallFailed, match="cannot be reached") as caught:
        await Desk(choice).run()
    await choice.provider.aclose()
    assert caught.value.kind == "unreachable"


async def test_the_key_is_sent_but_never_shown(api: str, caplog: pytest.LogCaptureFixture) -> None:
    """A server that repeats the key in its error does not make us print or log it."""
    caplog.set_level(logging.DEBUG)
    async with fake_openai([Fail(401, f"Incorrect API key provided: {SECRET}")]) as server:
        choice = hosted(server.base_url, api)
        with pytest.raises(ModelCallFailed) as caught:
            await Desk(choice).run()
        await choice.provider.aclose()
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    model = choice.provider.get_model(None)
    for shown in (str(caught.value), repr(caught.value), repr(choice), repr(model), repr(model.__dict__), caplog.text):
        assert SECRET not in shown


async def test_a_server_without_keys_works_without_a_key(api: str) -> None:
    """Ollama, vLLM and llama.cpp need no key; a placeholder is sent."""
    answer, _, _ = await run_script([Say("Hello.")], api, openai_api_key=None)
    assert answer == "Hello."


async def test_no_trace_leaves_the_machine_and_no_exporter_thread_runs() -> None:
    """After a whole run there is no tracing thread, and the only requests were model calls."""
    async with fake_openai([Say("Hello.")]) as server:
        choice = hosted(server.base_url, "responses")
        await Desk(choice).run()
        await choice.provider.aclose()
        assert [request.path for request in server.requests] == ["/v1/responses"]
    assert not [thread.name for thread in threading.enumerate() if "trac" in thread.name.lower()]
