// The review in the editor: what agents read and write, pending edits painted, kept and rejected. Glue over the pure model.
import { realpath } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import * as vscode from "vscode";
import { Review, type Change } from "../core/review/model";
import { diff, lines, type Hunk } from "../core/review/text";

export const BASE_SCHEME = "followspot-base";

export class Reviews implements vscode.CodeLensProvider, vscode.TextDocumentContentProvider, vscode.Disposable {
  #reviews = new Map<string, Review>();
  /** What the agent last read of a file: the text its next write is made from. */
  #snapshots = new Map<string, string>();
  /** Files that we change, the kind of change and the text it leads to; another text is the user's typing in between. */
  #own = new Map<string, { kind: "agent" | "reject"; text: string }>();
  /** One request at a time a file. */
  #queues = new Map<string, Promise<unknown>>();
  #lenses = new vscode.EventEmitter<void>();
  #bases = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChangeCodeLenses = this.#lenses.event;
  readonly onDidChange = this.#bases.event;
  #added = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.addedForeground"),
  });
  #removed = vscode.window.createTextEditorDecorationType({
    after: { color: new vscode.ThemeColor("editorCodeLens.foreground"), margin: "0 0 0 2em" },
  });
  #subscriptions: vscode.Disposable[];

  constructor(private readonly changed: () => void) {
    this.#subscriptions = [
      vscode.workspace.onDidChangeTextDocument((event) => this.#documentChanged(event)),
      vscode.window.onDidChangeVisibleTextEditors(() => this.#paint()),
      vscode.window.onDidChangeActiveTextEditor(() => this.#paint()),
      vscode.languages.registerCodeLensProvider({ scheme: "file" }, this),
      vscode.workspace.registerTextDocumentContentProvider(BASE_SCHEME, this),
    ];
  }

  dispose(): void {
    for (const one of [...this.#subscriptions, this.#added, this.#removed, this.#lenses, this.#bases]) one.dispose();
  }

  pending(): { path: string; hunks: number }[] {
    return [...this.#reviews]
      .map(([path, review]) => ({ path, hunks: review.hunks().length }))
      .filter((one) => one.hunks > 0);
  }

  async read(path: string, line: number | undefined, limit: number | undefined): Promise<string> {
    return this.#inOrder(path, async () => {
      const document = await this.#document(path);
      const text = document.getText();
      this.#snapshots.set(path, text);
      if (line === undefined && limit === undefined) return text;
      const all = lines(text);
      const start = Math.max(line ?? 1, 1) - 1;
      if (start > 0 && start >= all.length) throw RequestError.invalidParams({ details: `the file has ${all.length} lines` });
      return all.slice(start, limit === undefined ? undefined : start + limit).join("");
    });
  }

  async write(path: string, wanted: string): Promise<void> {
    await this.#inOrder(path, async () => {
      const uri = vscode.Uri.file(await inside(path));
      const missing = await vscode.workspace.fs.stat(uri).then(() => false, () => true);
      if (missing) {
        await vscode.workspace.fs.writeFile(uri, new Uint8Array());
        this.#reviews.set(path, new Review("", true));
        this.#snapshots.set(path, "");
      }
      const document = await vscode.workspace.openTextDocument(uri);
      const before = document.getText();
      const review = this.#reviews.get(path) ?? new Review(before);
      const origin = this.#snapshots.get(path) ??
        (document.isDirty ? decode(await vscode.workspace.fs.readFile(uri)) : before);
      // The editor holds one kind of line end a file and gives it to what is inserted; compare in that.
      const eol = (text: string) =>
        text.replace(/\r\n|\n/g, document.eol === vscode.EndOfLine.CRLF ? "\r\n" : "\n");
      const next = review.merged(eol(origin), eol(wanted));
      if (next === undefined) {
        throw RequestError.internalError({ details: "changed by the user since it was read; read again" });
      }
      this.#reviews.set(path, review);
      await this.#change(document, "agent", lineChanges(before, next));
      this.#snapshots.set(path, document.getText());
    });
  }

  keep(path: string, hunk?: Hunk): void {
    const review = this.#reviews.get(path);
    if (hunk === undefined) review?.keepAll();
    else if (this.#pends(path, hunk)) review?.keep(hunk);
    this.#refresh(path);
  }

  /** Takes edits back: one step that undo brings back. Saves only what was saved before. */
  async reject(path: string, hunk?: Hunk): Promise<void> {
    await this.#inOrder(path, async () => {
      const review = this.#reviews.get(path);
      if (review === undefined || (hunk !== undefined && !this.#pends(path, hunk))) return;
      const document = await this.#document(path);
      const changes = (hunk === undefined ? review.hunks() : [hunk]).map((one) => review.rejection(one));
      await this.#change(document, "reject", changes, !document.isDirty);
    });
  }

  /** Whether the hunk is still as it was shown: a button may be older than the text. */
  #pends(path: string, hunk: Hunk): boolean {
    return this.hunks(path).some((one) => one.start === hunk.start && one.count === hunk.count &&
      one.baseStart === hunk.baseStart && one.baseCount === hunk.baseCount);
  }

  hunkAt(path: string, line: number): Hunk | undefined {
    return this.#reviews.get(path)?.hunks().find((one) => line >= one.start && line <= one.start + Math.max(one.count - 1, 0));
  }

  hunks(path: string): Hunk[] {
    return this.#reviews.get(path)?.hunks() ?? [];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#reviews.get(uri.fsPath)?.base ?? "";
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const path = document.uri.fsPath;
    return this.hunks(path).flatMap((hunk) => {
      const range = new vscode.Range(hunk.start, 0, hunk.start, 0);
      return [
        new vscode.CodeLens(range, { title: "Keep", command: "followspot.hunk.keep", arguments: [path, hunk] }),
        new vscode.CodeLens(range, { title: "Reject", command: "followspot.hunk.reject", arguments: [path, hunk] }),
        new vscode.CodeLens(range, { title: `+${hunk.count} −${hunk.baseCount}`, command: "followspot.file.diff", arguments: [path] }),
      ];
    });
  }

  async #document(path: string): Promise<vscode.TextDocument> {
    const uri = vscode.Uri.file(await inside(path));
    try {
      return await vscode.workspace.openTextDocument(uri);
    } catch {
      throw RequestError.resourceNotFound(uri.toString());
    }
  }

  async #change(document: vscode.TextDocument, kind: "agent" | "reject", changes: Change[], save = true): Promise<void> {
    const path = document.uri.fsPath;
    let expected = document.getText();
    for (const { offset, length, text } of [...changes].sort((a, b) => b.offset - a.offset)) {
      expected = expected.slice(0, offset) + text + expected.slice(offset + length);
    }
    this.#own.set(path, { kind, text: expected });
    try {
      if (changes.length > 0) {
        const edit = new vscode.WorkspaceEdit();
        for (const { offset, length, text } of changes) {
          edit.replace(document.uri, new vscode.Range(document.positionAt(offset), document.positionAt(offset + length)), text);
        }
        if (!(await vscode.workspace.applyEdit(edit))) {
          throw RequestError.internalError({ details: "the editor refused the edit" });
        }
      }
      if (save && !(await document.save())) {
        throw RequestError.internalError({ details: "the file could not be saved; it may have changed on disk" });
      }
    } finally {
      this.#own.delete(path);
      this.#refresh(path);
    }
  }

  #documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const path = event.document.uri.fsPath;
    const review = this.#reviews.get(path);
    if (event.document.uri.scheme !== "file" || review === undefined || event.contentChanges.length === 0) return;
    const text = event.document.getText();
    const own = this.#own.get(path);
    if (own?.text === text && own.kind === "agent") review.agentWrote(text);
    else if (own?.text === text) review.rejected(text);
    else if (event.reason === undefined || !review.travelled(text)) {
      review.userChanged(event.contentChanges.map((one) => ({ offset: one.rangeOffset, length: one.rangeLength, text: one.text })));
    }
    this.#refresh(path);
  }

  #refresh(path: string): void {
    this.#lenses.fire();
    this.#bases.fire(vscode.Uri.file(path).with({ scheme: BASE_SCHEME }));
    this.#paint();
    this.changed();
  }

  #paint(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      if (editor.document.uri.scheme !== "file") continue;
      const path = editor.document.uri.fsPath;
      const base = lines(this.#reviews.get(path)?.base ?? "");
      const hunks = this.hunks(path);
      editor.setDecorations(this.#added, hunks.filter((one) => one.count > 0)
        .map((one) => new vscode.Range(one.start, 0, one.start + one.count - 1, 0)));
      editor.setDecorations(this.#removed, hunks.filter((one) => one.baseCount > 0).map((one) => ({
        range: new vscode.Range(one.start, Number.MAX_SAFE_INTEGER, one.start, Number.MAX_SAFE_INTEGER),
        renderOptions: { after: { contentText: `− ${one.baseCount} lines: ${(base[one.baseStart] ?? "").trim().slice(0, 60)}` } },
      })));
    }
    const active = vscode.window.activeTextEditor?.document.uri.fsPath;
    void vscode.commands.executeCommand("setContext", "followspot.inReview", active !== undefined && this.hunks(active).length > 0);
  }

  #inOrder<T>(path: string, work: () => Promise<T>): Promise<T> {
    const next = (this.#queues.get(path) ?? Promise.resolve()).then(work, work);
    this.#queues.set(path, next.catch(() => undefined));
    return next;
  }
}

/** The smallest line edits that turn one text into the other, so that cursor, folds and breakpoints survive. */
export function lineChanges(before: string, after: string): Change[] {
  const from = lines(before);
  const to = lines(after);
  return diff(from, to).map((hunk) => ({
    offset: from.slice(0, hunk.baseStart).join("").length,
    length: from.slice(hunk.baseStart, hunk.baseStart + hunk.baseCount).join("").length,
    text: to.slice(hunk.start, hunk.start + hunk.count).join(""),
  }));
}

/** The path, when it lies in a folder of the workspace also after links are followed. */
async function inside(path: string): Promise<string> {
  const real = await realpath(path).catch(async () => join(await realpath(dirname(path)).catch(() => ""), basename(path)));
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    const root = await realpath(folder.uri.fsPath);
    if (real.startsWith(root + sep)) return path;
  }
  throw RequestError.invalidParams({ details: `${path} is outside the workspace` });
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
