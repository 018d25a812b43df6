/** Hosted plugins that hang, spin, crash or exit. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import {
  confined,
  findEntry,
  loadIntoTestKernel,
  NO_NETWORK,
  plain,
  catchRejection,
  usePluginLoaders,
} from "./use-plugin-loaders.ts";

usePluginLoaders();

/** Only a process can be killed. An inline plugin that hangs cannot be stopped, which is why inline requires trust. */
describe.each([
  ["in a sandbox", confined],
  ["without a sandbox", plain],
] as const)("in its own process, %s", (_how, loader) => {
  test("kills a plugin whose onLoad hangs and reports it", async () => {
    const loaded = await loader.load(findEntry("sleeper"), "hosted", NO_NETWORK);
    const error = await catchRejection(loadIntoTestKernel(loaded.plugin, { config: { where: "load" } }));
    expect(codeOf(error)).toBe("launch_failed");
    expect(error.message).toBe(
      "sleeper did not finish onLoad within 1500 ms, so its process was killed. Last line on stderr: about to sleep",
    );
    await loaded.close();
  });

  test.each([
    ["crash", /^The process of sleeper exited with code 1\. .*could not sleep/, "plugin.mjs"],
    ["exit", /^The process of sleeper exited with code 7\./, "about to sleep"],
  ])(
    "reports once, with its last output, that a process exited on its own (%s)",
    async (how, message, trace) => {
      const loaded = await loader.load(findEntry("sleeper"), "hosted", NO_NETWORK);
      const run = await loadIntoTestKernel(loaded.plugin);
      const errors: Error[] = [];
      const exited = new Promise<void>((resolve) => {
        loaded.onExit((error) => {
          errors.push(error);
          resolve();
        });
      });
      const failure = await catchRejection(run.event("x.sleeper.a", { [how]: true }));
      await exited;
      await loaded.close();
      expect(errors.map((error) => error.message)).toEqual([failure.message]);
      expect(failure.message).toMatch(message);
      expect(failure.stack).toContain(trace);
      expect(codeOf(failure)).toBe("crashed");
      // There is nothing to unload.
      await loaded.plugin.onUnload?.(run.ctx);
    },
  );

  test("kills a plugin that spins", async () => {
    const loaded = await loader.load(findEntry("sleeper"), "hosted", NO_NETWORK);
    // The process writes to the state folder of the kernel, although the sandbox mounts it at another path.
    const state_dir = loader.stateDir("sleeper");
    rmSync(join(state_dir, "spins"), { force: true });
    const run = await loadIntoTestKernel(loaded.plugin, { state_dir });
    const spinning = catchRejection(run.event("x.sleeper.a", { spin: true }));
    await expect.poll(() => existsSync(join(state_dir, "spins"))).toBe(true);
    await loaded.close();
    await loaded.close();
    expect((await spinning).message).toMatch(
      /^The process of sleeper was stopped because the plugin was unloaded/,
    );
  });
});
