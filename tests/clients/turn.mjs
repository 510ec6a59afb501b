// A small editor on the official TypeScript SDK: `node turn.mjs PROGRAM FOLDER` plays two prompts in FOLDER, cancels the
// second at its first word, loads the session again, and prints what it saw as one JSON object.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [program, folder] = process.argv.slice(2);
const seen = { calls: {}, kinds: [], asked: [], reads: 0, writes: 0, stops: [], listed: 0, replayed: [] };
let atFirstWord = () => {};
let isLoading = false;

const app = client({ name: "followspot-turn" })
  .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
    seen.reads += 1;
    return { content: await readFile(params.path, "utf8") };
  })
  .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
    seen.writes += 1;
    await writeFile(params.path, params.content);
    return {};
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push(params.toolCall.title);
    const yes = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: yes.optionId } };
  })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (isLoading) {
      seen.replayed.push(update.sessionUpdate);
      return;
    }
    seen.kinds.push(update.sessionUpdate);
    if (update.toolCallId && update.status) seen.calls[update.toolCallId] = update.status;
    if (update.sessionUpdate === "agent_message_chunk") atFirstWord();
  });

const agent = spawn(program, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await app.connectWith(stream, async (context) => {
  await context.request(methods.agent.initialize, {
    protocolVersion: 1,
    clientInfo: { name: "followspot-turn", version: "1" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
  });
  const session = { cwd: folder, mcpServers: [] };
  const { sessionId } = await context.request(methods.agent.session.new, session);
  await context.request(methods.agent.session.setMode, { sessionId, modeId: "ask" });
  const prompt = async (text) => {
    const answer = { sessionId, prompt: [{ type: "text", text }] };
    seen.stops.push((await context.request(methods.agent.session.prompt, answer)).stopReason);
  };
  await prompt("one");
  atFirstWord = () => context.notify(methods.agent.session.cancel, { sessionId });
  await prompt("two");
  seen.listed = (await context.request(methods.agent.session.list, { cwd: folder })).sessions.length;
  isLoading = true;
  await context.request(methods.agent.session.load, { sessionId, ...session });
});
agent.stdin.end();
await new Promise((resolve) => (agent.exitCode === null ? agent.once("exit", resolve) : resolve()));
console.log(JSON.stringify({ ...seen, exit: agent.exitCode }));
