// Shows the place where the agent works. Never takes the focus, never moves the cursor, waits while the user is busy.
import * as vscode from "vscode";

/** How long the user counts as busy after typing or moving, in milliseconds. */
const BUSY = 5_000;
/** At most one reveal in this time, the latest place wins, in milliseconds. */
const PACE = 1_000;

export class Follow implements vscode.Disposable {
  // Off until it is asked for: showing another file in the group of a focused editor can swallow a key.
  #on = vscode.workspace.getConfiguration("followspot").get("follow", false);
  #latest: { path: string; line: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #acted = -Infinity;
  #mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("editor.rangeHighlightBackground"),
    after: { contentText: "◂ agent", margin: "0 0 0 2em" },
  });
  #status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right);
  #watch = vscode.window.onDidChangeTextEditorSelection((event) => {
    if (event.kind !== undefined && event.kind !== vscode.TextEditorSelectionChangeKind.Command) this.#acted = Date.now();
  });

  constructor() {
    this.#status.command = "followspot.toggleFollow";
    this.#show();
    this.#status.show();
  }

  at(path: string, line: number): void {
    this.#latest = { path, line };
    this.#show();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#reveal();
    }, PACE);
  }

  toggle(): void {
    this.#on = !this.#on;
    this.#show();
  }

  /** A new prompt: the user looks at the agent again. */
  resume(): void {
    this.#acted = -Infinity;
  }

  dispose(): void {
    clearTimeout(this.#timer);
    for (const one of [this.#mark, this.#status, this.#watch]) one.dispose();
  }

  #show(): void {
    const place = this.#latest === undefined ? "" : ` ${vscode.workspace.asRelativePath(this.#latest.path)}:${this.#latest.line}`;
    this.#status.text = `$(eye) ${this.#on ? "Follow" : "Not following"}${place}`;
  }

  async #reveal(): Promise<void> {
    const place = this.#latest;
    if (place === undefined || !this.#on || Date.now() - this.#acted < BUSY) return;
    const uri = vscode.Uri.file(place.path);
    if (vscode.workspace.getWorkspaceFolder(uri) === undefined) return;
    try {
      const editor = vscode.window.visibleTextEditors.find((one) => one.document.uri.toString() === uri.toString()) ??
        (await vscode.window.showTextDocument(uri, { preserveFocus: true, preview: true }));
      const range = new vscode.Range(place.line - 1, 0, place.line - 1, 0);
      editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      for (const other of vscode.window.visibleTextEditors) other.setDecorations(this.#mark, other === editor ? [range] : []);
    } catch {
      // A folder or a binary file cannot be shown; the status item names it.
    }
  }
}
