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

function createRecords() {
  const installed: PluginEntry[] = [];
  const warned: string[] = [];
  const loader = { discover: async () => ({ entries: installed, problems: [{ source: "odd" }] }) };
  const log = createTestLogger((level, message) => warned.push(`${level} ${message}`));
  const deps = { loader, log } as unknown as PluginSystemDeps;
  return { records: new PluginRecords(deps), installed, warned };
}
const instanceRequiring = (requires: string[]) => ({ plugin: { requires } }) as unknown as Instance;

test("discovers each package once and keeps the loaded entry of a running plugin", async () => {
  const { records, installed, warned } = createRecords();
  installed.push(entry("a"), entry("b"));
  expect((await records.discover()).map(({ name }) => name)).toEqual(["a", "b"]);
  records.get("b").instance = instanceRequiring([]);
  installed.splice(0, 2, entry("a", "2.0.0"), entry("b", "2.0.0"), entry("c"));
  expect((await records.discover()).map(({ name }) => name)).toEqual(["c"]);
  expect(records.list().map((record) => `${record.name} ${record.entry.version}`)).toEqual([
    "a 2.0.0",
    "b 1.0.0",
    "c 1.0.0",
  ]);
  expect((await records.findInstalled("b"))?.version).toBe("2.0.0");
  expect(warned).toEqual(Array(2).fill("warn a package declares a plugin that is not valid"));
  records.forget(records.get("a"));
  expect(records.find("a")).toBeUndefined();
  expect(() => records.get("a")).toThrow(expect.objectContaining({ code: "plugin.not_found" }));
});

test("reports the first missing requirement and unblocks waiting plugins once", async () => {
  const { records, installed } = createRecords();
  installed.push(entry("base"), entry("top"));
  await records.discover();
  const [base, top] = [records.get("base"), records.get("top")];
  expect(records.findMissing(instanceRequiring([]))).toBeNull();
  expect(records.findMissing(instanceRequiring(["base"]))).toEqual({ name: "base", status: "unloaded" });
  base.status = "loaded";
  expect(records.findMissing(instanceRequiring(["base", "gone"]))).toEqual({
    name: "gone",
    status: "not installed",
  });
  top.blocked_by = "base";
  expect([records.unblock("other"), records.unblock("base"), records.unblock("base")]).toEqual([
    [],
    [top],
    [],
  ]);
});
