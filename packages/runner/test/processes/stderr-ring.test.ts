import { expect, test } from "vitest";
import { StderrRing } from "../../src/processes/stderr-ring.ts";

test("keeps exactly the last bytes for all chunk sizes", () => {
  for (const sizes of [[1], [7, 3], [64], [65, 1], [200], [13, 64, 1, 300, 5]]) {
    const ring = new StderrRing(64);
    let all = "";
    for (let round = 0; round < 40; round++) {
      const chunk = String.fromCharCode(97 + (round % 26)).repeat(sizes[round % sizes.length]!);
      ring.append(Buffer.from(chunk));
      all += chunk;
      expect(ring.since(0).toString()).toBe(all.slice(-64));
      expect(ring.total).toBe(all.length);
    }
  }
});

test("returns what was written since a position, up to a maximum", () => {
  const ring = new StderrRing(16);
  ring.append(Buffer.from("before|"));
  const start = ring.total;
  expect(ring.since(start).length).toBe(0);
  ring.append(Buffer.from("mine"));
  expect(ring.since(start).toString()).toBe("mine");
  expect(ring.since(0, 2).toString()).toBe("ne");
  ring.append(Buffer.from("x".repeat(20)));
  expect(ring.since(start).toString()).toBe("x".repeat(16));
});

test("allocates memory for what was written, not for the capacity", () => {
  const ring = new StderrRing(1024 * 1024 * 1024);
  const initial_bytes = process.memoryUsage().arrayBuffers;
  ring.append(Buffer.from("a line\n"));
  expect(process.memoryUsage().arrayBuffers - initial_bytes).toBeLessThan(1024 * 1024);
});
