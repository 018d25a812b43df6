/**
 * Tools that write one line to a file each time they are called and then wait until the test opens a gate. `pay` must not
 * run twice, `look` and `note` may, and `pay_one` runs one call at a time. The hook `on_settled` writes a line for each
 * delivery and waits while hooks are held.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestGateway } from "../gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "./plugin-folder.ts";
import { createSharedFolder, type SharedFolder } from "./shared-folder.ts";

const EFFECTS: Record<string, string> = {
  pay: "non_idempotent_write",
  pay_one: "non_idempotent_write",
  look: "read_only",
  note: "idempotent_write",
};
const HOLD = "hold the hooks";
const RELEASE = "release the hooks";

export interface GatedTool {
  /** Installs the tools and optionally the hook on all gateways and binds them once: the gateways share a database. */
  install(gateways: readonly TestGateway[], with_hook?: boolean): Promise<void>;
  /** How often a tool was started with this name. */
  countRuns(name: string): number;
  openGate(name: string): void;
  /** The delivery ids of the hook's calls, in order. */
  deliveries(): string[];
  holdHooks(): void;
  releaseHooks(): void;
  remove(): void;
}

export function createGatedTool(): GatedTool {
  const shared: SharedFolder = createSharedFolder("effects.log", "gates");
  const lines = (file: string) => readFileSync(shared.outside(file), "utf8").split("\n");
  const openGate = (name: string) => {
    const gates = readFileSync(shared.outside("gates"), "utf8");
    writeFileSync(shared.outside("gates"), `${gates}${name}\n`);
  };
  const program = (package_id: string, name: string, isOpen: string, answer: string) =>
    vaiProgram(
      package_id,
      `async ({ body }) => {
        const { readFileSync } = await import("node:fs");
        const gates = () => readFileSync("${shared.inside("gates")}", "utf8").split("\\n");
        const count = (line) => gates().filter((gate) => gate === line).length;
        const name = ${name};
        appendFileSync("${shared.inside("effects.log")}", name + "\\n");
        while (!(${isOpen})) await new Promise((done) => setTimeout(done, 20));
        return ${answer};
      }`,
    );
  const tools = writePluginFolder({
    package_id: "acme/gated",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: {
      "bin/plugin.mjs": program(
        "acme/gated",
        "body.input.name",
        "count(name) > 0",
        '{ status: "succeeded", result: { content: [{ type: "text", text: "did " + name }] } }',
      ),
    },
    exports: Object.entries(EFFECTS).map(([id, effect_class]) => ({
      id,
      effect_class,
      default_timeout_ms: 300_000,
      // Without the canary: it would be sealed with the key of one of the homes.
      extra: "",
      ...(id === "pay_one" ? { max_concurrency: 1 } : {}),
    })),
  });
  const writeHookFolder = () => {
    const entrypoint = ["node", "./bin/plugin.mjs"];
    const isOpen = `count("${HOLD}") <= count("${RELEASE}")`;
    const folder = writePluginFolder({
      package_id: "acme/settled-hook",
      entrypoint,
      files: {
        "bin/plugin.mjs": program(
          "acme/settled-hook",
          '"hook " + body.delivery_id',
          isOpen,
          '{ status: "ack" }',
        ),
      },
      exports: [],
    });
    const manifest = readFileSync(join(folder, "vai-plugin.toml"), "utf8");
    const hook = `[[exports]]\nid = "on_settled"\nkind = "hook"\ndefault_timeout_ms = 300000\n[exports.hook]\nsubscribes_to = ["invocation.settled"]\n`;
    writeFileSync(join(folder, "vai-plugin.toml"), manifest + hook);
    return folder;
  };
  const installOn = async ([first, ...others]: readonly TestGateway[], folder: string, exports: string[]) => {
    await installAndBind(first!, folder, exports, { class: "worker", mounts: [shared.mount] });
    for (const other of others) await other.http("POST", "/v1/plugin-packages", { source: { folder } });
  };
  return {
    async install(gateways, with_hook = false) {
      await installOn(gateways, tools, Object.keys(EFFECTS));
      if (with_hook) await installOn(gateways, writeHookFolder(), ["on_settled"]);
      await gateways[0]!.http("PATCH", "/v1/policy", { tolerance: { conversation: "full" } });
    },
    countRuns: (name) => lines("effects.log").filter((line) => line === name).length,
    openGate,
    deliveries: () => lines("effects.log").filter((line) => line.startsWith("hook ")),
    holdHooks: () => openGate(HOLD),
    releaseHooks: () => openGate(RELEASE),
    remove: () => shared.remove(),
  };
}
