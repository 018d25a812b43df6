/** Folders that are loaded on save: a watched workspace and an editable install. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { eventually } from "../../support/gateway/processes.ts";
import {
  callForText,
  cli,
  gateway,
  restart,
  type ToolList,
  toolSource,
  useToolFolders,
  writeToolsFolder,
} from "../../support/plugins/tool-folders.ts";
import { verifies } from "../../support/verifies.ts";

useToolFolders();

/** This limit only ends a load that hangs. With twelve busy processes on two cores, a load took 12 s. */
const LIMIT_MS = 90_000;

interface Folder {
  errors: Record<string, string>;
}

const listFolders = async () => (await gateway.http<{ items: Folder[] }>("GET", "/v1/workspaces")).body.items;

/**
 * Waits until the tool has this description, and returns how long that took. Reads the list of tools instead of calling
 * the tool, because a call takes longer.
 */
async function waitUntilDescribedAs(name: string, description: string): Promise<number> {
  const isDescribedAs = async () => {
    const { body } = await gateway.http<ToolList>("GET", "/v1/plugin-tools");
    return body.items.find((item) => item.export_id === name)?.description === description;
  };
  try {
    return await eventually(isDescribedAs, LIMIT_MS, `${name} is ${description}`);
  } catch (error) {
    const state = `${JSON.stringify(await listFolders())}\n${gateway.log().slice(-3_000)}`;
    throw new Error(`${(error as Error).message}\n${state}`);
  }
}

const NODE_START_IDLE_MS = 50;

/** The median of three starts. */
function measureNodeStart(): number {
  const times = Array.from({ length: 3 }, () => {
    const from = performance.now();
    spawnSync(process.execPath, ["-e", "0"]);
    return performance.now() - from;
  });
  return times.sort((a, b) => a - b)[1]!;
}

const describedToolSource = (text: string) =>
  `export default { description: "${text}", defaultRiskLevel: "low", execute: () => ({ content: "${text}" }) };\n`;

verifies(
  "tools.hot",
  "loads a saved file in under 1 s, and keeps the last working version of a broken file",
  async () => {
    const path = writeToolsFolder("live", {
      "tools/live.ts": describedToolSource("first"),
      "tools/beside.ts": toolSource("beside"),
    });
    await cli("workspace", "trust", path, "--watch", "--yes");
    expect(await callForText("live")).toBe("first");
    const durations: number[] = [];
    for (let save = 0; save < 5; save++) {
      writeFileSync(join(path, "tools/live.ts"), describedToolSource(`save ${save}`));
      const ms = await waitUntilDescribedAs("live", `save ${save}`);
      durations.push(ms / Math.max(1, measureNodeStart() / NODE_START_IDLE_MS));
    }
    // The limit applies to an idle machine; the measured start time of Node accounts for other load.
    expect(Math.min(...durations)).toBeLessThan(1_000);

    writeFileSync(join(path, "tools/live.ts"), "export default { description: ");
    const isErrorShown = async () =>
      (await listFolders())[0]?.errors["tools/live.ts"]?.includes("tools/live.ts") ?? false;
    await eventually(isErrorShown, LIMIT_MS, "the error is shown");
    expect(await callForText("live")).toBe("save 4");
    // Other tools keep working.
    writeFileSync(join(path, "tools/beside.ts"), describedToolSource("beside two"));
    await waitUntilDescribedAs("beside", "beside two");
    expect([await callForText("live"), await callForText("beside")]).toEqual(["save 4", "beside two"]);

    writeFileSync(join(path, "tools/live.ts"), describedToolSource("mended"));
    await waitUntilDescribedAs("live", "mended");
    const isErrorGone = async () => Object.keys((await listFolders())[0]?.errors ?? {}).length === 0;
    await eventually(isErrorGone, LIMIT_MS, "the error is gone");
    expect(await callForText("live")).toBe("mended");
  },
  900_000,
);

verifies(
  "tools.hot",
  "reloads an editable install after changes to its folder, including those made while the gateway was stopped",
  async () => {
    const path = writeToolsFolder("editable", {
      "package.json": JSON.stringify({ name: "edited-plugin", version: "2.0.0" }),
      "tools/edited.ts": describedToolSource("one"),
    });
    const { stdout } = await cli("plugin", "install", path, "--editable");
    expect(stdout).toMatch(/Linked .* as local\/edited-plugin@2\.0\.0-d/);
    expect(await callForText("edited")).toBe("one");
    writeFileSync(join(path, "tools/edited.ts"), describedToolSource("two"));
    await waitUntilDescribedAs("edited", "two");
    await gateway.stop();
    writeFileSync(join(path, "tools/edited.ts"), describedToolSource("three"));
    await restart();
    await waitUntilDescribedAs("edited", "three");
    expect(await callForText("edited")).toBe("three");
  },
  900_000,
);
