// The session against a scripted agent: a real child process that speaks the protocol line by line.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Session } from "../../src/acp/session";

const AGENT = `
let ask;
const out = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
const update = (update) => out({ method: "session/update", params: { sessionId: "s", update } });
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const m = JSON.parse(line);
  if (m.method === "initialize") out({ id: m.id, result: { protocolVersion: 1, agentCapabilities: {} } });
  if (m.method === "session/new") out({ id: m.id, result: { sessionId: "s" } });
  if (m.method === "session/prompt") {
    ask = m.id;
    if (m.params.prompt[0].text === "crash") process.exit(3);
    update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Hel" } });
    update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "lo" } });
    out({ id: 900, method: "fs/write_text_file", params: { sessionId: "s", path: "/w/a.txt", content: "new" } });
  }
  if (m.id === 900) out({ id: 901, method: "session/request_permission", params: { sessionId: "s",
    toolCall: { toolCallId: "c", title: "Run", rawInput: { command: "ls" } },
    options: [{ optionId: "y", name: "Yes", kind: "allow_once" }] } });
  if (m.id === 901) {
    update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: " " + JSON.stringify(m.result.outcome) } });
    out({ id: ask, result: { stopReason: "end_turn" } });
  }
}).on("close", () => process.exit(0));`;

function start(answer: (session: Session) => void) {
  const written: [string, string][] = [];
  const session: Session = new Session({
    command: () => ({ command: process.execPath, args: ["-e", AGENT] }),
    cwd: () => mkdtempSync(join(tmpdir(), "session-")),
    log: () => undefined,
    changed: () => {
      if (session.state.questions.length > 0) answer(session);
    },
    located: () => undefined,
    read: async () => "",
    write: async (path, text) => void written.push([path, text]),
  });
  return { session, written };
}

test("a turn streams, writes a file and has its question answered", async () => {
  const { session, written } = start((one) => one.answer(one.state.questions[0]!.id, "y"));
  await session.send("hi");
  await session.dispose();
  expect(written).toEqual([["/w/a.txt", "new"]]);
  expect(session.state.entries.slice(0, 2)).toEqual([
    { kind: "user", text: "hi" },
    { kind: "agent", text: 'Hello {"outcome":"selected","optionId":"y"}' },
  ]);
});

test("a crash is told and does not stay busy", async () => {
  const { session } = start(() => undefined);
  await session.send("crash");
  expect(session.state.busy).toBe(false);
  expect(session.state.entries.some((one) => one.kind === "error")).toBe(true);
});
