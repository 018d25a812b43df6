import { expect, test } from "vitest";
import { createCredentialCheck } from "../../src/credentials/scan-credentials.ts";

test("finds the longest private key across the border of two chunks", () => {
  const key = `-----BEGIN ${"A".repeat(32)}PRIVATE KEY BLOCK-----${String.raw`\\\\n`.repeat(41)}`;
  for (let border = 1; border < key.length; border++) {
    const check = createCredentialCheck();
    const scan = check.scan("notes.txt");
    scan.push(Buffer.from(key.slice(0, border)));
    scan.push(Buffer.from(key.slice(border)));
    expect(() => check.assertNone("folder"), `border at ${border}`).toThrow(
      expect.objectContaining({ code: "package.credential_file" }),
    );
  }
});

test.each([
  ["repeated headers", "-----BEGIN PRIVATE KEY-----"],
  ["repeated headers with an escaped line break", "-----BEGIN PRIVATE KEY-----\\n."],
  ["backslashes after a header", "\\"],
  ["beginnings of a header", "-----BEGIN A"],
  ["line breaks with a wrong character after 38 units", `${"\\n".repeat(38)}!`],
])("searches 1 MB of %s for a private key in linear time", (_label, unit) => {
  const text = `-----BEGIN PRIVATE KEY-----${unit.repeat(1_000_000 / unit.length)}`;
  const check = createCredentialCheck();
  const started = process.cpuUsage();
  check.scan("notes.txt").push(Buffer.from(text));
  // It takes about 10 ms; an expression with quadratic time needs minutes.
  expect(process.cpuUsage(started).user / 1000).toBeLessThan(2_000);
  check.assertNone("folder");
});
