import { expect, test } from "vitest";
import { openBus, scope } from "./open-bus.ts";

test("a name is a source: none looks like the kernel, none is taken twice where two can meet", () => {
  const { bus } = openBus();
  const sit = (name: string, where: { org_id: string; project_id: string | null } = scope) =>
    bus.attach({ name, category: "skill", scope: where });
  for (const name of ["kernel", "kernel-session-context"])
    expect(() => sit(name)).toThrow("the kernel's own name");
  for (const name of ["", "Web", "web_x", "-a", "a--b", "a.b", "a b", "a".repeat(65)]) {
    expect(() => sit(name)).toThrow("is no plugin name");
  }
  expect(() => bus.attach({ name: "web", category: "boss" as never, scope })).toThrow("no plugin category");
  sit("web");
  expect(() => sit("web")).toThrow("web owns it");
  expect(() => sit("web", { ...scope, project_id: null })).toThrow("web owns it");
  expect(sit("web", { ...scope, project_id: "proj_two" }).name).toBe("web");
  expect(sit("web", { org_id: "org_other", project_id: null }).name).toBe("web");
});

test("only a bundled plugin registers a prefix besides its name, and nobody another's (bus.closed)", () => {
  const { bus } = openBus();
  const sit = (name: string, bundled: boolean, prefixes: string[] = []) =>
    bus.attach({ name, category: "tool", scope, bundled, prefixes });
  expect(() => sit("evil", false, ["mcp"])).toThrow("may not register the prefix x.mcp");
  expect(() => sit("evil", false, ["stats"])).toThrow("may not register the prefix x.stats");
  for (const reserved of ["mcp", "agent"]) expect(() => sit(reserved, false)).toThrow("may not register");
  sit("mcp-bridge", true, ["mcp"]);
  expect(() => sit("second-bridge", true, ["mcp"])).toThrow("mcp-bridge owns it");
  sit("stats", false);
  expect(() => sit("third", true, ["stats"])).toThrow("stats owns it");
});
