// The review model against random texts and random orders of agent and user.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Review } from "../../src/core/review/model";
import { diff, lines, merge } from "../../src/core/review/text";

const text = fc
  .tuple(fc.array(fc.constantFrom("a", "b", "c", "d", ""), { maxLength: 14 }), fc.boolean())
  .map(([parts, ended]) => parts.join("\n") + (ended ? "\n" : ""));

function rejectAll(review: Review): void {
  for (const hunk of review.hunks().reverse()) {
    const { offset, length, text } = review.rejection(hunk);
    review.rejected(review.current.slice(0, offset) + text + review.current.slice(offset + length));
  }
}

describe("the line diff", () => {
  test("turns the base into the current text", () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const from = lines(before);
        const to = lines(after);
        const out: string[] = [];
        let at = 0;
        for (const hunk of diff(from, to)) {
          out.push(...from.slice(at, hunk.baseStart), ...to.slice(hunk.start, hunk.start + hunk.count));
          at = hunk.baseStart + hunk.baseCount;
        }
        out.push(...from.slice(at));
        expect(out.join("")).toBe(after);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the merge", () => {
  test.each([
    ["a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"],
    ["a\nb\nc\n", "A\nb\nc\n", "X\nb\nc\n", undefined],
    ["a\n", "a\n", "b\n", "b\n"],
    ["a\nb\n", "a\nx\nb\n", "a\ny\nb\n", undefined],
  ])("of %j with %j and %j is %j", (origin, ours, theirs, expected) => {
    expect(merge(origin, ours, theirs)).toBe(expected);
  });
});

describe("the review", () => {
  test("rejecting everything gives the base exactly", () => {
    fc.assert(
      fc.property(text, text, text, (before, first, second) => {
        const review = new Review(before);
        review.agentWrote(first);
        review.agentWrote(second);
        rejectAll(review);
        expect(review.current).toBe(before);
        expect(review.hunks()).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("keeping each hunk leaves the text and nothing pending", () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const review = new Review(before);
        review.agentWrote(after);
        for (const hunk of review.hunks().reverse()) review.keep(hunk);
        expect([review.base, review.current]).toEqual([after, after]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a line typed outside every hunk survives rejecting everything", () => {
    fc.assert(
      fc.property(text, text, fc.nat(), (before, after, seed) => {
        const review = new Review(before);
        review.agentWrote(after);
        const current = lines(after);
        const free = current.map((_, line) => line).filter((line) =>
          review.hunks().every((hunk) => line < hunk.start || line > hunk.start + hunk.count));
        fc.pre(free.length > 0);
        const line = free[seed % free.length]!;
        review.userChanged([{ offset: current.slice(0, line).join("").length, length: 0, text: "typed " }]);
        rejectAll(review);
        expect(review.current.replace("typed ", "")).toBe(before);
        expect(review.current).toContain("typed ");
      }),
      { numRuns: 2_000 },
    );
  });

  test("undo of a reject brings the hunk back and redo takes it away", () => {
    const review = new Review("a\nb\n");
    review.agentWrote("a\nB\n");
    rejectAll(review);
    expect(review.travelled("a\nB\n")).toBe(true);
    expect(review.hunks()).toHaveLength(1);
    expect(review.travelled("a\nb\n")).toBe(true);
    expect(review.hunks()).toEqual([]);
  });

  test("typing inside a hunk becomes part of it", () => {
    const review = new Review("a\nb\nc\n");
    review.agentWrote("a\nBBB\nc\n");
    review.userChanged([{ offset: 3, length: 0, text: "x" }]);
    expect([review.base, review.current, review.hunks().length]).toEqual(["a\nb\nc\n", "a\nBxBB\nc\n", 1]);
  });
});
