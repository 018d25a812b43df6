import type { PluginEntry } from "@backplane/contract";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import type { Instance } from "../../src/plugins/instance.ts";
import type { PluginSystemDeps } from "../../src/plugins/plugins-port.ts";
import { PluginRecords } from "../../src/plugins/records.ts";

const entry = (name: string, version = "1.0.0"): PluginEntry => ({
  name,
  version,
  category: "tool",
  origin: "installed",
  source: name,
  dir: "",
  module: "",
});

function records() {
  const installed: PluginEntry[] = [];
  const warned: string[] = [];
  const loader = { discover: async () => ({ entries: installed, problems: [{ source: "odd" }] }) };
  const log = createTestLogger((level, message) => warned.push(`${level} ${message}`));
  const deps = { loader, log } as unknown as PluginSystemDeps;
  return { known: new PluginRecords(deps), installed, warned };
}
const running = (requires: string[]) => ({ plugin: { requires } }) as unknown as Instance;

test("discovers each package once and keeps the loaded entry of a running plugin", async () => {
  const { known, installed, warned } = records();
  installed.push(entry("a"), entry("b"));
  expect((await known.discover()).map(({ name }) => name)).toEqual(["a", "b"]);
  known.get("b").instance = running([]);
  installed.splice(0, 2, entry("a", "2.0.0"), entry("b", "2.0.0"), entry("c"));
  expect((await known.discover()).map(({ name }) => name)).toEqual(["c"]);
  expect(known.list().map((record) => `${record.name} ${record.entry.version}`)).toEqual([
    "a 2.0.0",
    "b 1.0.0",
    "c 1.0.0",
  ]);
  expect((await known.installed("b"))?.version).toBe("2.0.0");
  expect(warned).toEqual(Array(2).fill("warn a package declares a plugin that is not valid"));
  known.forget(known.get("a"));
  expect(known.find("a")).toBeUndefined();
  expect(() => known.get("a")).toThrow(expect.objectContaining({ code: "plugin.not_found" }));
});

test("names the first missing requirement and unblocks waiting plugins once", async () => {
  const { known, installed } = records();
  installed.push(entry("base"), entry("top"));
  await known.discover();
  const [base, top] = [known.get("base"), known.get("top")];
  expect(known.missing(running([]))).toBeNull();
  expect(known.missing(running(["base"]))).toEqual({ name: "base", why: "unloaded" });
  base.status = "loaded";
  expect(known.missing(running(["base", "gone"]))).toEqual({ name: "gone", why: "not installed" });
  top.blocked_by = "base";
  expect([known.unblock("other"), known.unblock("base"), known.unblock("base")]).toEqual([[], [top], []]);
});
