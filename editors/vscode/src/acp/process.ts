// The agent's process: found, started, and ended with everything it started. Imports no editor.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";

export interface AgentCommand {
  command: string;
  args?: string[];
  env?: Record<string, string>;
}

/** How long an agent may take to end by itself once its input is closed, in milliseconds. */
const GRACE = 1_000;
/** How much of the end of stderr is kept to explain a crash, in characters. */
const TAIL = 4_000;

export class AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  #tail = "";

  constructor(
    command: AgentCommand,
    cwd: string,
    log: (text: string) => void,
    ended: (why: string) => void,
  ) {
    this.child = spawn(command.command, command.args ?? [], {
      cwd,
      env: { ...environment(process.env), ...command.env },
      detached: process.platform !== "win32",
    });
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#tail = (this.#tail + text).slice(-TAIL);
      log(text.trimEnd());
    });
    this.child.stdin.on("error", () => undefined);
    this.child.once("error", (error) => ended(`${command.command} could not be started: ${error.message}`));
    this.child.once("close", (code, signal) => {
      ended(`${command.command} ended (${signal ?? `exit code ${code}`}). ${this.#tail}`.trim());
    });
  }

  /** Closes the input, then ends the whole group if the agent is still there after a second. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null || this.child.pid === undefined) return;
    const pid = this.child.pid;
    const gone = new Promise<void>((resolve) => this.child.once("exit", () => resolve()));
    this.child.stdin.end();
    const timer = setTimeout(() => {
      try {
        if (process.platform === "win32") this.child.kill();
        else process.kill(-pid, "SIGKILL");
      } catch {
        // It ended in between.
      }
    }, GRACE);
    await gone;
    clearTimeout(timer);
  }
}

/** What an agent inherits: everything but what would make it behave as a part of the editor. */
export function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([key]) =>
      key !== "ELECTRON_RUN_AS_NODE" && key !== "NODE_OPTIONS" && !key.startsWith("VSCODE_")),
  );
}
