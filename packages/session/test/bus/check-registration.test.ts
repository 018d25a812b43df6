import { expect, test } from "vitest";
import { createTestBus, scope } from "./test-bus.ts";

test("rejects an invalid name or category, the kernel's names, and a name registered in an overlapping scope", () => {
  const { bus } = createTestBus();
  const attach = (name: string, where: { org_id: string; project_id: string | null } = scope) =>
    bus.attach({ name, category: "skill", scope: where });
  for (const name of ["kernel", "kernel-session-context"])
    expect(() => attach(name)).toThrow("reserved for the kernel");
  for (const name of ["", "Web", "web_x", "-a", "a--b", "a.b", "a b", "a".repeat(65)]) {
    expect(() => attach(name)).toThrow("is not a valid plugin name");
  }
  expect(() => bus.attach({ name: "web", category: "boss" as never, scope })).toThrow(
    "is not a valid plugin category",
  );
  attach("web");
  expect(() => attach("web")).toThrow("web owns the prefix");
  expect(() => attach("web", { ...scope, project_id: null })).toThrow("web owns the prefix");
  expect(attach("web", { ...scope, project_id: "proj_two" }).name).toBe("web");
  expect(attach("web", { org_id: "org_other", project_id: null }).name).toBe("web");
});

test("lets only bundled plugins register extra prefixes, and never the prefix of another plugin (bus.closed)", () => {
  const { bus } = createTestBus();
  const attach = (name: string, bundled: boolean, prefixes: string[] = []) =>
    bus.attach({ name, category: "tool", scope, bundled, prefixes });
  expect(() => attach("evil", false, ["mcp"])).toThrow("may not register the prefix x.mcp");
  expect(() => attach("evil", false, ["stats"])).toThrow("may not register the prefix x.stats");
  for (const reserved of ["mcp", "agent"]) expect(() => attach(reserved, false)).toThrow("may not register");
  attach("mcp-bridge", true, ["mcp"]);
  expect(() => attach("second-bridge", true, ["mcp"])).toThrow("mcp-bridge owns the prefix");
  attach("stats", false);
  expect(() => attach("third", true, ["stats"])).toThrow("stats owns the prefix");
});
