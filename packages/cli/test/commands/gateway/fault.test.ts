/** An uncaught error in a real gateway process: a trusted plugin throws from a timer. */
import { expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { EXIT } from "../../../src/index.ts";
import { createKernelPluginFolder } from "../../support/kernel-plugin.ts";
import { spawnUp } from "../../support/spawn-up.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

const THROWING_PLUGIN = `
  subscriptions: () => ["user.message.received"],
  onEvent() {
    setInterval(() => {}, 1000);
    setTimeout(() => { throw new Error("out of nowhere"); }, 1);
  }`;

verifies(
  "plug.kernel-error",
  "publishes an uncaught error of the gateway as kernel.error and terminates the process with exit code 1",
  async () => {
    const folder = createKernelPluginFolder("bomb", THROWING_PLUGIN);
    const gateway = await spawnUp();
    try {
      await gateway.json("plugin", "install", folder.dir, "--yes");
      await gateway.json("plugin", "trust", "bomb", "--yes");
      // The plugin is disabled while the first run creates the session.
      await gateway.json("plugin", "disable", "bomb");
      await gateway.json("run", "start", "--session", "s1", "--input", "hi", "--wait");
      await gateway.json("plugin", "enable", "bomb");
      const watch = gateway.begin("session", "replay", "s1", "--follow", "--json");
      await waitForOutput(watch.io.out, /session\.replay\.done/);
      await gateway.json("run", "start", "--session", "s1", "--input", "go");
      expect(await gateway.closed).toBe(EXIT.failed);
      const published = watch.io
        .out()
        .split("\n")
        .find((line) => line.includes('"kernel.error"') && line.includes('"source":"kernel"'));
      expect(published).toBeDefined();
      expect(gateway.err()).toMatch(/^error\[internal\][\s\S]*out of nowhere/m);
      watch.io.signal("SIGINT");
      await watch.ended;
    } finally {
      await gateway.dispose();
      folder.remove();
    }
  },
  60_000,
);
