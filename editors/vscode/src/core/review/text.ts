// Lines, and the line diff the review is made of. Pure: imports nothing, knows no editor.

/** A run of lines that differs: `baseCount` lines from `baseStart` became `count` lines from `start` (0-based). */
export interface Hunk {
  baseStart: number;
  baseCount: number;
  start: number;
  count: number;
}

/** The lines of a text, each with its own line end, so that joining them gives the text back exactly. */
export function lines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Above this many edit steps the differing middle counts as one hunk. */
const MAX_STEPS = 2_000;

/** Compares line by line (Myers, after the common head and tail); hunks are in order and never touch. */
export function diff(base: readonly string[], current: readonly string[]): Hunk[] {
  let head = 0;
  while (head < base.length && head < current.length && base[head] === current[head]) head++;
  let tail = 0;
  while (
    tail < base.length - head &&
    tail < current.length - head &&
    base[base.length - 1 - tail] === current[current.length - 1 - tail]
  ) {
    tail++;
  }
  const a = base.slice(head, base.length - tail);
  const b = current.slice(head, current.length - tail);
  return middle(a, b).map((hunk) => ({ ...hunk, baseStart: hunk.baseStart + head, start: hunk.start + head }));
}

function middle(a: string[], b: string[]): Hunk[] {
  if (a.length === 0 && b.length === 0) return [];
  const whole = [{ baseStart: 0, baseCount: a.length, start: 0, count: b.length }];
  if (a.length === 0 || b.length === 0) return whole;
  const trace: Map<number, number>[] = [];
  let reach = new Map<number, number>([[1, 0]]);
  for (let step = 0; step <= Math.min(a.length + b.length, MAX_STEPS); step++) {
    const next = new Map(reach);
    trace.push(reach);
    for (let k = -step; k <= step; k += 2) {
      const down = k === -step || (k !== step && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      next.set(k, x);
      if (x >= a.length && y >= b.length) return walk(trace, a.length, b.length);
    }
    reach = next;
  }
  return whole;
}

function walk(trace: Map<number, number>[], endA: number, endB: number): Hunk[] {
  const hunks: Hunk[] = [];
  let x = endA;
  let y = endB;
  for (let step = trace.length - 1; step > 0; step--) {
    const reach = trace[step]!;
    const k = x - y;
    const down = k === -step || (k !== step && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromX = reach.get(down ? k + 1 : k - 1) ?? 0;
    const fromY = fromX - (down ? k + 1 : k - 1);
    const last = hunks[0];
    const endX = down ? fromX : fromX + 1;
    const endY = down ? fromY + 1 : fromY;
    if (last !== undefined && last.baseStart === endX && last.start === endY) {
      hunks[0] = {
        baseStart: fromX, baseCount: last.baseCount + endX - fromX,
        start: fromY, count: last.count + endY - fromY,
      };
    } else {
      hunks.unshift({ baseStart: fromX, baseCount: endX - fromX, start: fromY, count: endY - fromY });
    }
    x = fromX;
    y = fromY;
  }
  return hunks;
}

/** Three-way merge by lines of two texts made from `origin`; undefined when both changed the same or touching lines. */
export function merge(origin: string, ours: string, theirs: string): string | undefined {
  if (ours === origin || ours === theirs) return theirs;
  if (theirs === origin) return ours;
  const from = lines(origin);
  const left = lines(ours);
  const right = lines(theirs);
  const changes = [
    ...diff(from, left).map((hunk) => ({ hunk, text: left })),
    ...diff(from, right).map((hunk) => ({ hunk, text: right })),
  ].sort((p, q) => p.hunk.baseStart - q.hunk.baseStart);
  const out: string[] = [];
  let at = 0;
  let owner: string[] | undefined;
  for (const { hunk, text } of changes) {
    if (owner !== undefined && owner !== text && hunk.baseStart <= at) return undefined;
    out.push(...from.slice(at, hunk.baseStart), ...text.slice(hunk.start, hunk.start + hunk.count));
    at = hunk.baseStart + hunk.baseCount;
    owner = text;
  }
  out.push(...from.slice(at));
  return out.join("");
}
