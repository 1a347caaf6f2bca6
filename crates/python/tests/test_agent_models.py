"""The agent over the real clients of OpenAI and Anthropic, against a scripted model on loopback."""

import asyncio

import pytest

from belljar.agent import Agent, AnthropicChat, OpenAIChat, TokenEvent, default_chat
from scripted import ScriptedModel, code

SCRIPT = [code("print(6 * seven)", "I compute."), code("print(6 * 7)"), "It is 42."]


def openai_chat(model, asynchronous):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    client = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return OpenAIChat(client(api_key="sk-test", base_url=f"{model.url}/v1"), temperature=0)


def anthropic_chat(model, asynchronous):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    client = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    return AnthropicChat(client(api_key="sk-test", base_url=model.url), max_tokens=100)


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("chat_over", [openai_chat, anthropic_chat])
def test_the_loop_over_a_client(chat_over, stream, asynchronous):
    events = []
    with ScriptedModel(SCRIPT) as model:
        chat = chat_over(model, asynchronous)
        with Agent(chat, stream=stream) as agent:
            result = agent.run("Six times seven?", on_event=events.append)
    assert result.answer == "It is 42."
    assert result.tokens == 45
    assert [step.outcome.success for step in result.steps] == [False, True]
    tokens = [event.token for event in events if isinstance(event, TokenEvent)]
    assert "".join(tokens) == ("".join(SCRIPT) if stream and asynchronous else "")
    assert len(model.requests) == 3
    last = model.requests[-1]
    assert last.get("stream", False) is (stream and asynchronous)
    assert last["messages"][-1]["content"] == "Output:\n42"
    if chat_over is openai_chat:
        assert last["messages"][0]["role"] == "system"
        assert last["temperature"] == 0
    else:
        assert last["system"].startswith("You answer by writing Python")
        assert last["messages"][0] == {"role": "user", "content": "Six times seven?"}
        assert last["max_tokens"] == 100


def test_two_tasks_over_one_client():
    with ScriptedModel([code("x = 1"), "One.", code("print(x)"), "Still one."]) as model:
        chat = openai_chat(model, True)
        with Agent(chat) as agent:
            assert agent.run("Set x.").answer == "One."
            assert agent.run("And?").answer == "Still one."


def test_best_of_asks_the_model_as_often_as_it_takes():
    pytest.importorskip("openai", reason="openai is not installed")

    def answer(messages):
        return "Done." if messages[-1]["content"].startswith("Output") else code("print(1)")

    async def main():
        with ScriptedModel(answer) as model:
            async with Agent(openai_chat(model, True), best_of=4) as agent:
                result = await agent.arun("Go.")
            assert len(model.requests) == 8
            return result

    result = asyncio.run(main())
    assert (result.answer, len(result.steps), result.tokens) == ("Done.", 1, 120)


def test_default_chat_goes_by_the_model_s_name():
    assert isinstance(default_chat("gpt-4o"), OpenAIChat)
    assert isinstance(default_chat("claude-sonnet-5-5", temperature=0), AnthropicChat)
    assert default_chat("anthropic/claude-sonnet-5-5").model == "claude-sonnet-5-5"
    assert default_chat("openai/gpt-4o").model == "gpt-4o"
    assert Agent("claude-sonnet-5-5")._chat.model == "claude-sonnet-5-5"
