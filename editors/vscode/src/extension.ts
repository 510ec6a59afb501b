// Wiring only: the session, the review, the panel and the commands.
import * as vscode from "vscode";
import { Session } from "./acp/session";
import type { AgentCommand } from "./acp/process";
import type { Hunk } from "./core/review/text";
import { Follow } from "./editor/follow";
import { BASE_SCHEME, Reviews } from "./editor/review";
import { Panel } from "./panel/view";

let session: Session | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Followspot", { log: true });
  const reviews = new Reviews(() => panel.update());
  const follow = new Follow();
  const open = (): Session => new Session({
    command: agent,
    cwd: () => {
      const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
      if (folder === undefined) throw new Error("Open a folder first: the agent works in one.");
      return folder;
    },
    log: (text) => log.info(text),
    changed: () => panel.update(),
    located: (path, line) => follow.at(path, line),
    read: (path, line, limit) => reviews.read(path, line, limit),
    write: (path, text) => reviews.write(path, text),
  });
  let shown = (session = open());
  const panel = new Panel(context.extensionUri, () => ({ ...shown.state, pending: reviews.pending() }), (message) => {
    switch (message.type) {
      case "ready": return panel.update();
      case "send": follow.resume(); return void shown.send(message.text);
      case "stop": return void shown.stop();
      case "permission": return shown.answer(message.id, message.option);
      case "open":
        // Only what is pending can be opened from the panel.
        if (reviews.pending().some((one) => one.path === message.path)) {
          void vscode.window.showTextDocument(vscode.Uri.file(message.path), { preview: true });
        }
    }
  });
  const active = () => vscode.window.activeTextEditor;
  const target = (path?: unknown) => (typeof path === "string" ? path : active()?.document.uri.fsPath ?? "");
  const hunk = (path: string, given?: Hunk) => given ?? reviews.hunkAt(path, active()?.selection.active.line ?? -1);
  const go = (step: 1 | -1) => {
    const editor = active();
    if (editor === undefined) return;
    const starts = reviews.hunks(editor.document.uri.fsPath).map((one) => one.start);
    const line = editor.selection.active.line;
    const to = step === 1 ? starts.find((one) => one > line) ?? starts[0] : starts.findLast((one) => one < line) ?? starts.at(-1);
    if (to === undefined) return;
    editor.selection = new vscode.Selection(to, 0, to, 0);
    editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  };
  const commands: Record<string, (...args: never[]) => unknown> = {
    newSession: async () => {
      await shown.dispose();
      shown = session = open();
      panel.update();
    },
    stop: () => shown.stop(),
    toggleFollow: () => follow.toggle(),
    showLog: () => log.show(),
    "hunk.next": () => go(1),
    "hunk.previous": () => go(-1),
    "hunk.keep": (path?: unknown, given?: Hunk) => {
      const one = hunk(target(path), given);
      if (one !== undefined) reviews.keep(target(path), one);
    },
    "hunk.reject": async (path?: unknown, given?: Hunk) => {
      const one = hunk(target(path), given);
      if (one !== undefined) await reviews.reject(target(path), one);
    },
    "file.keep": () => reviews.keep(target()),
    "file.reject": () => reviews.reject(target()),
    "file.diff": (path?: unknown) => {
      const uri = vscode.Uri.file(target(path));
      return vscode.commands.executeCommand("vscode.diff", uri.with({ scheme: BASE_SCHEME }), uri, "Before the agent ↔ now");
    },
    "all.keep": () => reviews.pending().forEach((one) => reviews.keep(one.path)),
    "all.reject": async () => {
      for (const one of reviews.pending()) await reviews.reject(one.path);
    },
  };
  context.subscriptions.push(log, reviews, follow, vscode.window.registerWebviewViewProvider("followspot.panel", panel));
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(`followspot.${name}`, run));
  }
}

export async function deactivate(): Promise<void> {
  await session?.dispose();
}

/** The configured agent; nothing is started in a folder that is not trusted. */
function agent(): AgentCommand {
  if (!vscode.workspace.isTrusted) throw new Error("This folder is not trusted, so no agent is started.");
  const settings = vscode.workspace.getConfiguration("followspot");
  const name = settings.get<string>("defaultAgent", "Followspot");
  const found = settings.get<Record<string, AgentCommand>>("agents", {})[name];
  if (found === undefined) throw new Error(`No agent named ${name} in followspot.agents.`);
  return found;
}
