import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ANCHOR_FILE, openAuditAnchor } from "../../src/home/audit-files.ts";
import { openConsoleSessions } from "../../src/home/console-sessions.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-replace-"));
});
afterEach(() => rmSync(home, { recursive: true }));

test("leaves no draft of the audit anchor when it cannot be replaced", () => {
  // A folder in place of the file, so that the rename fails.
  mkdirSync(join(home, ANCHOR_FILE));
  const mark = { seq: 1, hash: "h", at: 1, checked: { seq: 1, hash: "h" } };
  expect(() => openAuditAnchor(home).write(mark)).toThrow();
  expect(readdirSync(home)).toEqual([ANCHOR_FILE]);
});

test("leaves no draft of the console sessions when they cannot be replaced", () => {
  mkdirSync(join(home, "console-sessions.json"));
  openConsoleSessions(home, "token", createTestLogger()).save([]);
  expect(readdirSync(home)).toEqual(["console-sessions.json"]);
});
