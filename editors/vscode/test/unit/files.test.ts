// Files as agents see them, pending edits as users decide them, on a text model.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Reviews } from "../../src/editor/review";
import * as fake from "../vscode-fake";

async function file(name: string, text: string) {
  const path = join(fake.folder, name);
  writeFileSync(path, text);
  const document = await fake.workspace.openTextDocument(fake.Uri.file(path));
  return { path, document, reviews: new Reviews(() => undefined) };
}
const type = (at: number, text: string) => [{ range: new fake.Range(at, at), text }];

test("one hunk kept, one rejected and a line typed in between give exactly that file", async () => {
  const { path, document, reviews } = await file("a", "1\n2\n3\n4\n5\n6\n7\n");
  await reviews.read(path, undefined, undefined);
  await reviews.write(path, "one\n2\n3\n4\n5\n6\nseven\n");
  document.edit(type("one\n2\n3\n".length, "typed\n"));
  const [first, second] = reviews.hunks(path);
  reviews.keep(path, first);
  await reviews.reject(path, second);
  await document.save();
  expect(readFileSync(path, "utf8")).toBe("one\n2\n3\ntyped\n4\n5\n6\n7\n");
  expect(reviews.pending()).toEqual([]);
});

test("the agent reads the unsaved buffer, and may not overwrite what was typed since", async () => {
  const { path, document, reviews } = await file("b", "a\nb\n");
  document.edit(type(0, "x"));
  expect(await reviews.read(path, 1, 1)).toBe("xa\n");
  document.edit(type(0, "y"));
  await expect(reviews.write(path, "agent\nb\n")).rejects.toThrow();
  expect(document.getText()).toBe("yxa\nb\n");
});

test("a path outside the workspace is refused", async () => {
  const { reviews } = await file("c", "");
  await expect(reviews.read("/etc/hostname", undefined, undefined)).rejects.toThrow();
});

test("a button older than the text rejects nothing", async () => {
  const { path, document, reviews } = await file("d", "1\n2\n");
  await reviews.read(path, undefined, undefined);
  await reviews.write(path, "1\ntwo\n");
  const [stale] = reviews.hunks(path);
  document.edit(type(0, "typed\n"));
  await reviews.reject(path, stale);
  expect(document.getText()).toBe("typed\n1\ntwo\n");
});
