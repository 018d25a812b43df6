import type { Manifest } from "@backplane/contract";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { createInstrumentKernel, instrumentManifest } from "./instrument-kernel.ts";

describe("installing all plugins of a folder (instr.lifecycle)", () => {
  const INTERNAL = "An internal error occurred in the gateway.";

  async function installAll(
    { fixture }: Awaited<ReturnType<typeof createInstrumentKernel>>,
    manifests: readonly Manifest[],
    stop = new AbortController(),
  ) {
    const names = new Map(
      manifests.map((each) => [fixture.importer.add(each).path, `${each.name} ${each.version}`]),
    );
    const results: (string | null)[][] = [];
    for await (const result of fixture.kernel.instruments.installAll(
      admin,
      [...names.keys(), "unreadable"],
      stop.signal,
    )) {
      const error = "error" in result ? result.error : result.plugin.error;
      results.push([names.get(result.path) ?? result.path, error?.message ?? null]);
    }
    return results;
  }

  test("installs each plugin once, after its dependencies, and reports none as skipped", async () => {
    const instruments = await createInstrumentKernel();
    const { fixture, runner, listStates } = instruments;
    const manifests = [
      instrumentManifest("a-child", ["m-parent", "z-parent"]),
      instrumentManifest("m-parent", ["z-parent"]),
      instrumentManifest("z-parent"),
    ];
    expect(await installAll(instruments, manifests)).toEqual([
      ["unreadable", INTERNAL],
      ["z-parent 1.0.0", null],
      ["m-parent 1.0.0", null],
      ["a-child 1.0.0", null],
    ]);
    expect(runner.described).toEqual(["z-parent", "m-parent", "a-child"]);
    expect(fixture.logged.filter(({ level }) => level === "warn")).toEqual([]);
    const loaded = fixture.logged.filter(({ message }) => message === "instrument plugin loaded");
    expect(loaded.map(({ fields }) => (fields as { plugin: string }).plugin)).toEqual([
      "z-parent",
      "m-parent",
      "a-child",
    ]);
    expect(await listStates()).toEqual({
      "a-child": "running",
      "m-parent": "running",
      "z-parent": "running",
    });
    // The next start of the gateway installs all of them again.
    await installAll(instruments, manifests);
    expect(runner.described).toHaveLength(3);
  });

  test("reports plugins with a missing dependency or a cycle at the end, and loads the others", async () => {
    const instruments = await createInstrumentKernel();
    const { listStates, runner } = instruments;
    const cycle = "c-cycle is skipped: its dependencies form a cycle: c-cycle → d-cycle → c-cycle.";
    const other_cycle = "d-cycle is skipped: its dependencies form a cycle: d-cycle → c-cycle → d-cycle.";
    const results = await installAll(instruments, [
      instrumentManifest("a-orphan", ["nobody"]),
      instrumentManifest("b-user", ["c-cycle"]),
      instrumentManifest("c-cycle", ["d-cycle"]),
      instrumentManifest("d-cycle", ["c-cycle"]),
      instrumentManifest("e-alone"),
    ]);
    expect(results).toEqual([
      ["unreadable", INTERNAL],
      ["e-alone 1.0.0", null],
      ["a-orphan 1.0.0", "a-orphan is skipped: its dependency nobody is not installed and bound."],
      ["b-user 1.0.0", `b-user is skipped: its dependency c-cycle did not load: ${cycle}.`],
      ["c-cycle 1.0.0", cycle],
      ["d-cycle 1.0.0", other_cycle],
    ]);
    expect(await listStates()).toMatchObject({ "c-cycle": cycle, "e-alone": "running" });
    expect(runner.described).toEqual(["e-alone"]);
  });

  test("installs the file with the newest version of a plugin, and refuses the others", async () => {
    const instruments = await createInstrumentKernel();
    const results = await installAll(instruments, [
      { ...instrumentManifest("twice"), version: "1.10.0" },
      { ...instrumentManifest("twice"), version: "1.9.0" },
    ]);
    expect(results).toEqual([
      ["unreadable", INTERNAL],
      ["twice 1.9.0", expect.stringContaining("contains twice 1.10.0")],
      ["twice 1.10.0", null],
    ]);
    expect(instruments.runner.described).toEqual(["twice"]);
  });

  test("installs no more plugins after a stop", async () => {
    const instruments = await createInstrumentKernel();
    const stop = new AbortController();
    const { describe: describePlugin } = instruments.runner;
    instruments.runner.describe = async (request) => {
      stop.abort();
      return await describePlugin(request);
    };
    const results = await installAll(
      instruments,
      [instrumentManifest("one"), instrumentManifest("two")],
      stop,
    );
    expect(results.map(([name]) => name)).toEqual(["unreadable", "one 1.0.0"]);
  });
});
