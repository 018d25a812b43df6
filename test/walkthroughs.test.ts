/**
 * ARCHITECTURE.md lists the files that a reader opens to follow a call, a turn and an installation. The files must
 * exist and the lists must stay short.
 */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const text = readFileSync("ARCHITECTURE.md", "utf8");

test.each([
  ["A tool call from the socket to the settled record", 20],
  ["An agent turn with one tool call, beyond the files above", 16],
  ["`npm:` install from the command to the committed rows", 14],
])("the walkthrough '%s' has at most %i files, and all exist", (title, max) => {
  const from = text.indexOf(`### ${title}\n`);
  expect(from).toBeGreaterThan(0);
  const section = text.slice(from + 4).split(/\n###? /)[0]!;
  const files = [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file]) => file!);
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
  expect(new Set(files).size).toBe(files.length);
  expect(files.length).toBeGreaterThan(5);
  expect(files.length).toBeLessThanOrEqual(max);
});
