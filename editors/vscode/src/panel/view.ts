// The panel: a page under a strict content policy that shows the session's state.
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { parse, type FromPanel, type State } from "../core/protocol";

/** The least time between two pictures of the state, in milliseconds. */
const TICK = 33;

export class Panel implements vscode.WebviewViewProvider {
  #view: vscode.WebviewView | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly root: vscode.Uri,
    private readonly state: () => State,
    private readonly received: (message: FromPanel) => void,
  ) {}

  resolveWebviewView(view: vscode.WebviewView): void {
    this.#view = view;
    const dist = vscode.Uri.joinPath(this.root, "dist");
    view.webview.options = { enableScripts: true, localResourceRoots: [dist] };
    view.webview.onDidReceiveMessage((raw: unknown) => {
      const message = parse(raw);
      if (message !== undefined) this.received(message);
    });
    view.onDidDispose(() => (this.#view = undefined));
    view.webview.html = page(
      view.webview.cspSource,
      view.webview.asWebviewUri(vscode.Uri.joinPath(dist, "panel.js")).toString(),
      view.webview.asWebviewUri(vscode.Uri.joinPath(dist, "panel.css")).toString(),
    );
  }

  update(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#view?.webview.postMessage(this.state());
    }, TICK);
  }
}

export function page(source: string, script: string, style: string): string {
  const nonce = randomBytes(16).toString("base64");
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ${source}; font-src ${source}; script-src 'nonce-${nonce}'">
<link rel="stylesheet" href="${style}"></head><body>
<div id="log" role="log" aria-live="polite" aria-label="Conversation"></div><div id="side" role="status"></div>
<div id="commands"></div><textarea id="input" rows="3" aria-label="Prompt" placeholder="Ask the agent, / for commands"></textarea>
<button id="stop" hidden>Stop</button><script nonce="${nonce}" src="${script}"></script></body></html>`;
}
