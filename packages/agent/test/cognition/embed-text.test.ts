import { describe, expect, test } from "vitest";
import { embedText } from "../../src/cognition/embed-text.ts";

const dot = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, value, at) => sum + value * b[at]!, 0);

describe("embedding without a model", () => {
  test("returns the same unit vector for the same text every time", () => {
    const vector = embedText("The quick brown fox");
    expect(vector).toHaveLength(256);
    expect(dot(vector, vector)).toBeCloseTo(1, 10);
    expect(embedText("The quick brown fox")).toEqual(vector);
    // Plugins store vectors, so a change of this number would invalidate every stored vector.
    expect(vector.findIndex((value) => value !== 0)).toBe(7);
    expect(dot(embedText("!!!"), embedText("???"))).toBe(1);
  });
  test("gives texts with shared words more similar vectors than texts without", () => {
    const query = embedText("how do I install a plugin");
    const near = embedText("installing plugins: how it is done");
    const far = embedText("the weather in Prague is cold");
    expect(dot(query, near)).toBeGreaterThan(dot(query, far) + 0.1);
  });
});
