// A small `vscode` with a real text model: documents hold text, edits are applied at once and told to listeners.
import { mkdtempSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const folder = realpathSync(mkdtempSync(join(tmpdir(), "review-")));
export class EventEmitter<T> {
  #all: ((value: T) => void)[] = [];
  event = (listener: (value: T) => void) => (this.#all.push(listener), { dispose() {} });
  fire = (value: T) => this.#all.forEach((one) => one(value));
  dispose() {}
}
export class Uri {
  constructor(readonly fsPath: string, readonly scheme = "file") {}
  static file = (path: string) => new Uri(path);
  with = ({ scheme }: { scheme: string }) => new Uri(this.fsPath, scheme);
  toString = () => `${this.scheme}://${this.fsPath}`;
}
export class Range { constructor(readonly start: number, readonly end: number) {} }
export class ThemeColor {}
export class CodeLens {}
export const EndOfLine = { LF: 1, CRLF: 2 };
type Replacement = { uri: Uri; range: Range; text: string };
export class WorkspaceEdit {
  all: Replacement[] = [];
  replace(uri: Uri, range: Range, text: string) { this.all.push({ uri, range, text }); }
}
const changed = new EventEmitter<object>();
class Document {
  isDirty = false;
  eol = EndOfLine.LF;
  text: string;
  constructor(readonly uri: Uri) { this.text = readFileSync(uri.fsPath, "utf8"); }
  getText = () => this.text;
  // The fake's positions are offsets.
  positionAt = (offset: number) => offset;
  edit(all: { range: Range; text: string }[]) {
    const contentChanges = [...all].sort((a, b) => b.range.start - a.range.start)
      .map(({ range, text }) => ({ rangeOffset: range.start, rangeLength: range.end - range.start, text }));
    for (const { rangeOffset, rangeLength, text } of contentChanges) {
      this.text = this.text.slice(0, rangeOffset) + text + this.text.slice(rangeOffset + rangeLength);
    }
    this.isDirty = true;
    changed.fire({ document: this, contentChanges, reason: undefined });
  }
  save = async () => (writeFileSync(this.uri.fsPath, this.text), (this.isDirty = false), true);
}
const open = new Map<string, Document>();
const nothing = () => ({ dispose() {} });
export const workspace = {
  workspaceFolders: [{ uri: Uri.file(folder) }],
  fs: {
    stat: async (uri: Uri) => statSync(uri.fsPath),
    readFile: async (uri: Uri) => readFileSync(uri.fsPath),
    writeFile: async (uri: Uri, bytes: Uint8Array) => writeFileSync(uri.fsPath, bytes),
  },
  openTextDocument: async (uri: Uri) => {
    const document = open.get(uri.fsPath) ?? new Document(uri);
    open.set(uri.fsPath, document);
    return document;
  },
  applyEdit: async (edit: WorkspaceEdit) => (open.get(edit.all[0]!.uri.fsPath)!.edit(edit.all), true),
  onDidChangeTextDocument: changed.event,
  registerTextDocumentContentProvider: nothing,
};
export const window = {
  visibleTextEditors: [], activeTextEditor: undefined,
  createTextEditorDecorationType: nothing, onDidChangeVisibleTextEditors: nothing, onDidChangeActiveTextEditor: nothing,
};
export const languages = { registerCodeLensProvider: nothing };
export const commands = { executeCommand: async () => undefined };
