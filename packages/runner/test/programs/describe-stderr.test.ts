import { expect, test } from "vitest";
import { describeStderr } from "../../src/programs/describe-stderr.ts";

test("skips stack traces to find the last line", () => {
  const trace = "boot\nTypeError: no\n    at x (y.js:1:2) {\n  code: 'X'\n}\n\nNode.js v26.1.0\n";
  expect(describeStderr(trace)).toBe("Last line on stderr: TypeError: no");
  expect(describeStderr("starting\nouch\n")).toBe("Last line on stderr: ouch");
  expect(describeStderr("\n\n")).toBeNull();
});

test("quotes the error above a help text, with the lines that follow it", () => {
  const help = `Example server starting
error: required option '--api-key <key>' not specified

Usage: example-server [options]

Options:
  --api-key <key>   required: the key (error: if missing)
  --on-error <x>    what to do on error: stop, go on

Examples:
  example-server --api-key abc
See the documentation for more.
`;
  expect(describeStderr(help)).toBe(
    "From stderr: error: required option '--api-key <key>' not specified | Usage: example-server [options]",
  );
});

test("quotes a sentence without a marker above a help text", () => {
  const help = "Please provide a database URL as a command-line argument\nUsage: pg URL\nExamples:\n";
  expect(describeStderr(help)).toBe(
    "From stderr: Please provide a database URL as a command-line argument | Usage: pg URL",
  );
});

test("quotes the last distinct error lines, without colors", () => {
  const log = [
    "\u001b[31m[error]\u001b[0m cannot connect, retrying",
    "\u001b[31m[error]\u001b[0m cannot connect, retrying",
    "2026-01-02T03:04:05Z FATAL: password authentication failed for user bob",
    "Traceback (most recent call last):",
    '  File "x.py", line 3, in <module>',
    "psycopg.OperationalError: connection failed",
    "Bye.",
    "",
  ].join("\n");
  expect(describeStderr(log)).toBe(
    "From stderr: [error] cannot connect, retrying | " +
      "2026-01-02T03:04:05Z FATAL: password authentication failed for user bob | " +
      "psycopg.OperationalError: connection failed",
  );
});

test("shortens long lines", () => {
  expect(describeStderr(`Error: ${"x".repeat(500)}\nBye.\n`)).toMatch(
    /^From stderr: Error: x{193}… \| Bye\.$/,
  );
});
