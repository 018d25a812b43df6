/**
 * Tools that leave one line in a file for each time that they run, and then wait until the test opens a gate. `pay`
 * may not run twice, `look` may; of `pay_one` one call runs at a time.
 */
import { readFileSync, writeFileSync } from "node:fs";
import type { TestGateway } from "./gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "./plugin-folder.ts";
import { type SharedFolder, shareFolder } from "./shared-folder.ts";

const EXPORTS = ["pay", "pay_one", "look"];

export interface GatedTool {
  /** Installs it on each of the gateways, which share a database, and binds it. */
  install(gateways: readonly TestGateway[]): Promise<void>;
  /** How often the tool ran with this name. */
  runs(name: string): number;
  open(name: string): void;
  remove(): void;
}

export function gatedTool(): GatedTool {
  const shared: SharedFolder = shareFolder("effects.log", "gates");
  const folder = writePluginFolder({
    package_id: "acme/gated",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: {
      "bin/plugin.mjs": vaiProgram(
        "acme/gated",
        `async ({ body }) => {
          const { readFileSync } = await import("node:fs");
          const { name } = body.input;
          appendFileSync("${shared.inside("effects.log")}", name + "\\n");
          const open = () => readFileSync("${shared.inside("gates")}", "utf8").split("\\n").includes(name);
          while (!open()) await new Promise((done) => setTimeout(done, 20));
          return { status: "succeeded", result: { content: [{ type: "text", text: "paid " + name }] } };
        }`,
      ),
    },
    exports: EXPORTS.map((id) => ({
      id,
      effect_class: id === "look" ? "read_only" : "non_idempotent_write",
      default_timeout_ms: 300_000,
      // Without the canary: it would be sealed with the key of one of the homes.
      extra: "",
      ...(id === "pay_one" ? { max_concurrency: 1 } : {}),
    })),
  });
  return {
    async install([first, ...others]) {
      await installAndBind(first!, folder, EXPORTS, { class: "worker", mounts: [shared.mount] });
      for (const other of others) await other.http("POST", "/v1/plugin-packages", { source: { folder } });
      await first!.http("PATCH", "/v1/policy", { tolerance: { conversation: "full" } });
    },
    runs: (name) =>
      readFileSync(shared.outside("effects.log"), "utf8")
        .split("\n")
        .filter((line) => line === name).length,
    open(name) {
      const before = readFileSync(shared.outside("gates"), "utf8");
      writeFileSync(shared.outside("gates"), `${before}${name}\n`);
    },
    remove: () => shared.remove(),
  };
}
