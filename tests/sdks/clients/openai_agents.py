"""What an agent of openai-agents does with a server, its schemas strict, its model a script."""

import asyncio
import json
import os
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.mcp import MCPServerStdio
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

EMPTY = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}

NEW = {"old_text": "iron", "new_text": "steel", "blob": "BLOB"}

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("context_pack", {"query": "pier"}),
    ("recall", {"query": "pier oak"}),
    ("session", {"action": "start", "goal": "Mend the pier", "status": "ok"}),
    ("remember", {"text": "Bollards are of iron.", "kind": "semantic_fact"}),
    ("read_note", {"path": "PATH"}),
    ("update_note", {"path": "PATH", **NEW}),
    ("update_note", {"path": "PATH", "property": "tags", "value": ["metal"]}),
    ("task", {"action": "add", "title": "Paint the pier"}),
    ("promote", {"paths": ["PATH"]}),
    ("history", {"action": "log"}),
    ("session", {"action": "close", "status": "ok", "summary": "It is mended."}),
    ("checkpoint", {"action": "commit", "note": "mended"}),
    ("forget", {"path": "PATH"}),
]


def fill(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Give every argument, as a strict schema makes a model do; what is left says nothing."""
    assert set(schema["required"]) == set(schema["properties"]), "the schema is not strict"
    least = {
        name: each.get("enum", [EMPTY.get(str(each.get("type")))])[0]
        for name, each in schema["properties"].items()
    }
    return {**least, **given}


class Script(Model):
    """Calls one tool after the other, with what the answers before said."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.known = {"PATH": "", "BLOB": ""}

    async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
        asked, tools = given["input"], given["tools"]
        if isinstance(asked, list) and asked[-1].get("type") == "function_call_output":
            self._hear(asked[-1]["output"])
        number = len(self.answers)
        output: Any
        if number < len(STEPS):
            name, wanted = STEPS[number]
            schema = next(each.params_json_schema for each in tools if each.name == name)
            words = json.dumps(fill(schema, wanted))
            for key, value in self.known.items():
                words = words.replace(f'"{key}"', json.dumps(value))
            output = ResponseFunctionToolCall(
                arguments=words, call_id=f"c{number}", name=name, type="function_call"
            )
        else:
            text = ResponseOutputText(annotations=[], text="Done.", type="output_text")
            output = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def _hear(self, answer: Any) -> None:
        parts = [answer] if isinstance(answer, dict) else answer
        words = parts if isinstance(parts, str) else "".join(each["text"] for each in parts)
        self.answers.append(words)
        if words.startswith("Remembered: "):
            self.known["PATH"] = words.split()[1]
        if STEPS[len(self.answers) - 1][0] == "read_note":
            self.known["BLOB"] = words.split("@")[1].split()[0]

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    params = {"command": sys.argv[1], "args": sys.argv[2:], "env": dict(os.environ)}
    async with MCPServerStdio(params=params, client_session_timeout_seconds=60) as server:
        script = Script()
        agent = Agent(
            name="tester",
            model=script,
            mcp_servers=[server],
            mcp_config={"convert_schemas_to_strict": True},
        )
        config = RunConfig(tracing_disabled=True)
        done = await Runner.run(agent, "Mend it.", max_turns=30, run_config=config)
        told = [[step[0], answer] for step, answer in zip(STEPS, script.answers, strict=True)]
        print(json.dumps({"said": done.final_output, "told": told}))


asyncio.run(main())
