// The review of one file: the text as if no unreviewed agent edit had happened (`base`), and the text as it stands
// (`current`). Hunks are derived from the two, so no state can drift. Pure: the editor layer applies what this answers.
import { diff, lines, merge, type Hunk } from "./text";

/** One replacement in the text as it was: `length` characters from `offset` become `text`. */
export interface Change {
  offset: number;
  length: number;
  text: string;
}

/** How many earlier states undo can come back to. */
const RING = 200;

export class Review {
  #base: string;
  #current: string;
  /** Which base belonged to a text that was seen: undo and redo bring both back. Oldest first. */
  #seen = new Map<string, string>();

  constructor(
    text: string,
    readonly created = false,
    base = text,
  ) {
    this.#base = base;
    this.#current = text;
    this.#remember();
  }

  get base(): string {
    return this.#base;
  }

  get current(): string {
    return this.#current;
  }

  /** What is pending; runs with at most one unchanged line between them are one hunk. */
  hunks(): Hunk[] {
    const joined: Hunk[] = [];
    for (const hunk of diff(lines(this.#base), lines(this.#current))) {
      const last = joined.at(-1);
      if (last !== undefined && hunk.baseStart - last.baseStart - last.baseCount <= 1) {
        last.baseCount = hunk.baseStart + hunk.baseCount - last.baseStart;
        last.count = hunk.start + hunk.count - last.start;
      } else {
        joined.push({ ...hunk });
      }
    }
    return joined;
  }

  /** The text after the agent wrote `text`, having read `snapshot`; undefined when the user changed the same lines. */
  merged(snapshot: string, text: string): string | undefined {
    return merge(snapshot, text, this.#current);
  }

  /** The buffer now holds `text` by the agent's doing: the difference becomes pending. */
  agentWrote(text: string): void {
    this.#current = text;
    this.#remember();
  }

  /** The user changed the buffer. What lies outside every hunk goes into the base too, and so is never pending. */
  userChanged(changes: readonly Change[]): void {
    for (const change of [...changes].sort((a, b) => b.offset - a.offset)) this.#userChange(change);
    this.#remember();
  }

  /** The buffer went to `text` by undo or redo; false when that text was never seen (then it is the user's edit). */
  travelled(text: string): boolean {
    const base = this.#seen.get(text);
    if (base === undefined) return false;
    this.#base = base;
    this.#current = text;
    return true;
  }

  /** The hunk stays: it becomes part of the base. The buffer is untouched. */
  keep(hunk: Hunk): void {
    const base = lines(this.#base);
    const kept = lines(this.#current).slice(hunk.start, hunk.start + hunk.count);
    this.#base = [...base.slice(0, hunk.baseStart), ...kept, ...base.slice(hunk.baseStart + hunk.baseCount)].join("");
    this.#forget();
  }

  keepAll(): void {
    this.#base = this.#current;
    this.#forget();
  }

  /** The change that takes the hunk back; the editor applies it, then tells by `rejected`. */
  rejection(hunk: Hunk): Change {
    const current = lines(this.#current);
    const offset = current.slice(0, hunk.start).join("").length;
    const length = current.slice(hunk.start, hunk.start + hunk.count).join("").length;
    const text = lines(this.#base).slice(hunk.baseStart, hunk.baseStart + hunk.baseCount).join("");
    return { offset, length, text };
  }

  /** The buffer now holds `text` because edits were rejected; the base stays. */
  rejected(text: string): void {
    this.#current = text;
    this.#remember();
  }

  #userChange(change: Change): void {
    const before = this.#current;
    const end = change.offset + change.length;
    let shift = 0;
    let inside = false;
    const current = lines(before);
    const base = lines(this.#base);
    const at = offsets(current);
    const baseAt = offsets(base);
    for (const hunk of this.hunks()) {
      const from = at[hunk.start]!;
      const to = at[hunk.start + hunk.count]!;
      if (to <= change.offset && !(to === change.offset && hunk.count === 0)) {
        // A text that does not end with a line end has no place behind its last line that is outside.
        if (to === change.offset && !before.slice(0, to).endsWith("\n")) inside = true;
        shift = baseAt[hunk.baseStart + hunk.baseCount]! - to;
      } else if (from < end || from === change.offset) {
        inside = true;
      }
    }
    this.#current = before.slice(0, change.offset) + change.text + before.slice(end);
    if (inside) return;
    const offset = change.offset + shift;
    this.#base = this.#base.slice(0, offset) + change.text + this.#base.slice(offset + change.length);
  }

  #remember(): void {
    this.#seen.delete(this.#current);
    this.#seen.set(this.#current, this.#base);
    if (this.#seen.size > RING) {
      for (const oldest of this.#seen.keys()) {
        this.#seen.delete(oldest);
        break;
      }
    }
  }

  #forget(): void {
    this.#seen.clear();
    this.#remember();
  }
}

/** Where each line starts, and behind the last one the length of the text. */
function offsets(parts: readonly string[]): number[] {
  const starts = [0];
  for (const part of parts) starts.push(starts.at(-1)! + part.length);
  return starts;
}
