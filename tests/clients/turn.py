"""A small editor on the official Python SDK: `python turn.py PROGRAM FOLDER` plays two prompts in FOLDER, cancels the
second at its first word, loads the session again, and prints what it saw as one JSON object.

The SDK checks every message against its models and fails on one that does not fit.
"""

import asyncio
import json
import os
import pathlib
import sys

import acp
from acp import schema

seen = {"calls": {}, "kinds": [], "asked": [], "reads": 0, "writes": 0, "stops": [], "listed": 0, "replayed": []}


class Editor:
    at_first_word = None
    is_loading = False

    def on_connect(self, conn):
        self.conn = conn

    async def session_update(self, session_id, update, **_):
        kind = update.session_update
        if self.is_loading:
            seen["replayed"].append(kind)
            return
        seen["kinds"].append(kind)
        if kind in ("tool_call", "tool_call_update") and update.status:
            seen["calls"][update.tool_call_id] = update.status
        if kind == "agent_message_chunk" and self.at_first_word:
            await self.at_first_word()

    async def request_permission(self, session_id, tool_call, options, **_):
        seen["asked"].append(tool_call.title)
        yes = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=yes.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, **_):
        seen["reads"] += 1
        return schema.ReadTextFileResponse(content=pathlib.Path(path).read_text())

    async def write_text_file(self, session_id, path, content, **_):
        seen["writes"] += 1
        pathlib.Path(path).write_text(content)
        return schema.WriteTextFileResponse()

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass


async def main(program, folder):
    editor = Editor()
    async with acp.spawn_agent_process(editor, program, "acp", env=dict(os.environ)) as (conn, process):
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        await conn.initialize(
            protocol_version=1,
            client_capabilities=schema.ClientCapabilities(fs=files),
            client_info=schema.Implementation(name="followspot-turn", version="1"),
        )
        session = await conn.new_session(cwd=folder, mcp_servers=[])
        await conn.set_session_mode(session_id=session.session_id, mode_id="ask")

        async def prompt(text):
            answer = await conn.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])
            seen["stops"].append(answer.stop_reason)

        async def cancel():
            await conn.cancel(session_id=session.session_id)

        await prompt("one")
        editor.at_first_word = cancel
        await prompt("two")
        seen["listed"] = len((await conn.list_sessions(cwd=folder)).sessions)
        editor.is_loading = True
        await conn.load_session(cwd=folder, session_id=session.session_id, mcp_servers=[])
    seen["exit"] = process.returncode
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
