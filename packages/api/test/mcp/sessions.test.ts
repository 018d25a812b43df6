import type { Caller, CatalogTool } from "@backplane/kernel";
import { expect, test } from "vitest";
import { createToolPages } from "../../src/mcp/list-tools.ts";
import { McpSessions, SESSION_LIMITS } from "../../src/mcp/sessions.ts";

const caller = (actor: string): Caller => ({
  actor,
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "user",
  scopes: [],
  admin: false,
});

let now = 0;
const clock = { now: () => now, monotonic: () => now, after: () => ({ stop() {} }) };

test("an idle session ends after an hour, a busy one does not", () => {
  now = 0;
  const sessions = new McpSessions(clock);
  const idle = sessions.open(caller("a"), "2025-11-25");
  const busy = sessions.open(caller("a"), "2025-11-25");
  busy.calls.set(1, { invocation_id: null, cancelled: false });
  now = SESSION_LIMITS.idle_ms + 1;
  expect(sessions.find(caller("a"), idle.id)).toBe(null);
  expect(sessions.find(caller("a"), busy.id)).toBe(busy);
  expect(sessions.find(caller("b"), busy.id)).toBe(null);
  expect(sessions.size).toBe(1);
});

test("a caller that opens too many loses its oldest idle one; others keep theirs", () => {
  const sessions = new McpSessions(clock, { sessions: 4, per_caller: 2 });
  const other = sessions.open(caller("b"), "2025-11-25");
  const [first, second] = [sessions.open(caller("a"), "x"), sessions.open(caller("a"), "x")];
  first.calls.set(1, { invocation_id: null, cancelled: false });
  const third = sessions.open(caller("a"), "x");
  expect([first, second, third].map(({ id }) => sessions.find(caller("a"), id) !== null)).toEqual([
    true,
    false,
    true,
  ]);
  third.calls.set(1, { invocation_id: null, cancelled: false });
  expect(() => sessions.open(caller("a"), "x")).toThrow(/Too many/);
  expect(sessions.find(caller("b"), other.id)).toBe(other);
});

test("pages follow each other by name, with no gap and no double", () => {
  const tools = Array.from(
    { length: 7 },
    (_, n): CatalogTool => ({
      name: `tool_${n}`,
      title: null,
      description: "",
      input_schema: {},
      output_schema: null,
      effect_class: "unknown",
      requires_approval: false,
      risk: "unknown",
      origin: "plugin",
      package_id: "acme/devkit",
      binding_id: null,
    }),
  );
  const pages = createToolPages(3);
  const names: unknown[] = [];
  let cursor: unknown;
  let count = 0;
  do {
    const page = pages.page(tools, cursor);
    names.push(...(page.tools as { name: string }[]).map(({ name }) => name));
    cursor = page.nextCursor;
    count++;
  } while (cursor !== undefined);
  expect([count, names]).toEqual([3, tools.map(({ name }) => name)]);
});
