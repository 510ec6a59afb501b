// One agent, one session on it: connects at the first prompt, runs prompts in order, serves files, asks for permission.
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, type ClientConnection, type SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { apply, content, emptyState } from "../core/transcript";
import type { State } from "../core/protocol";
import { AgentProcess, type AgentCommand } from "./process";

/** What a session needs from the editor. */
export interface Host {
  command(): AgentCommand;
  cwd(): string;
  log(text: string): void;
  changed(): void;
  located(path: string, line: number): void;
  read(path: string, line: number | undefined, limit: number | undefined): Promise<string>;
  write(path: string, text: string): Promise<void>;
}

/** A message of more than this many bytes ends the connection. */
const MAX_MESSAGE = 64 * 1024 * 1024;

export class Session {
  readonly state: State = emptyState();
  #process: AgentProcess | undefined;
  #connection: ClientConnection | undefined;
  #opening: Promise<string> | undefined;
  #id: string | undefined;
  #queue: Promise<void> = Promise.resolve();
  #waiting = 0;
  /** Counts the stops: a prompt queued before one is not sent after it. */
  #stops = 0;
  #answers = new Map<number, (option: string | undefined) => void>();
  #question = 0;

  constructor(private readonly host: Host) {}

  /** Queues a prompt behind those that run; ends when its turn did. */
  send(text: string): Promise<void> {
    this.#waiting += 1;
    this.state.busy = true;
    const stops = this.#stops;
    this.#queue = this.#queue.then(async () => {
      try {
        if (stops === this.#stops) await this.#turn(text, stops);
      } catch (error) {
        this.#tell(error instanceof Error ? error.message : String(error));
      }
      this.#waiting -= 1;
      this.state.busy = this.#waiting > 0;
      this.host.changed();
    });
    this.host.changed();
    return this.#queue;
  }

  /** Cancels the turn and drops the queued prompts; open questions are answered `cancelled`. */
  async stop(): Promise<void> {
    this.#stops += 1;
    for (const id of [...this.#answers.keys()]) this.answer(id, undefined);
    if (this.#id !== undefined) {
      await this.#connection?.agent.notify(methods.agent.session.cancel, { sessionId: this.#id });
    }
  }

  answer(id: number, option: string | undefined): void {
    const question = this.state.questions.find((one) => one.id === id);
    if (option !== undefined && !question?.options.some((one) => one.id === option)) return;
    this.#answers.get(id)?.(option);
  }

  async dispose(): Promise<void> {
    for (const id of [...this.#answers.keys()]) this.answer(id, undefined);
    await this.#process?.stop();
  }

  async #turn(text: string, stops: number): Promise<void> {
    this.state.entries.push({ kind: "user", text });
    this.host.changed();
    const sessionId = await (this.#opening ??= this.#open()).catch(async (error: unknown) => {
      // The next prompt tries anew, and no half-open agent is left behind.
      const failed = this.#process;
      this.#opening = this.#process = this.#connection = undefined;
      await failed?.stop();
      throw error;
    });
    if (stops !== this.#stops) return;
    await this.#connection?.agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  }

  async #open(): Promise<string> {
    const cwd = this.host.cwd();
    const agent = new AgentProcess(this.host.command(), cwd, (line) => this.host.log(line), (why) => this.#ended(agent, why));
    this.#process = agent;
    const stream = ndJsonStream(
      Writable.toWeb(agent.child.stdin) as WritableStream<Uint8Array>,
      Readable.toWeb(agent.child.stdout) as ReadableStream<Uint8Array>,
      { maxMessageBytes: MAX_MESSAGE },
    );
    this.#connection = client({ name: "followspot-vscode" })
      .onNotification(methods.client.session.update, ({ params }) => this.#update(params.update))
      .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
        this.host.located(params.path, params.line ?? 1);
        return { content: await this.host.read(params.path, params.line ?? undefined, params.limit ?? undefined) };
      })
      .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
        await this.host.write(params.path, params.content);
        return {};
      })
      .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
        const id = ++this.#question;
        const call = params.toolCall;
        const body = content(call.content ?? []);
        this.state.questions.push({
          id,
          title: call.title ?? "Permission",
          detail: body === "" ? JSON.stringify(call.rawInput ?? {}, undefined, 2) : body,
          options: params.options.map((option) => ({ id: option.optionId, name: option.name })),
        });
        const option = await new Promise<string | undefined>((resolve) => {
          this.#answers.set(id, resolve);
          signal.addEventListener("abort", () => resolve(undefined), { once: true });
          this.host.changed();
        });
        this.#answers.delete(id);
        this.state.questions = this.state.questions.filter((one) => one.id !== id);
        this.host.changed();
        return { outcome: option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option } };
      })
      .connect(stream);
    await this.#connection.agent.request(methods.agent.initialize, {
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    });
    const made = await this.#connection.agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
    this.#id = made.sessionId;
    return made.sessionId;
  }

  #update(update: SessionUpdate): void {
    // The prompt is already shown; agents that echo it would show it twice.
    if (update.sessionUpdate !== "user_message_chunk") apply(this.state, update);
    if (update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update") {
      const place = update.locations?.at(-1);
      if (place !== undefined) this.host.located(place.path, place.line ?? 1);
    }
    this.host.changed();
  }

  /** The process is gone: say so, and start anew with the next prompt. */
  #ended(agent: AgentProcess, why: string): void {
    if (this.#process !== agent) return;
    this.#process = this.#connection = this.#opening = this.#id = undefined;
    for (const id of [...this.#answers.keys()]) this.answer(id, undefined);
    this.#tell(why);
  }

  #tell(text: string): void {
    this.state.entries.push({ kind: "error", text });
    this.host.changed();
  }
}
