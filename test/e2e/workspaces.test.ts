/** Folders that the operator trusts or links: edits await review, or are loaded on save if the folder is watched. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { eventually } from "../support/processes.ts";
import {
  call,
  cli,
  folder,
  gateway,
  restart,
  says,
  type ToolList,
  textOf,
  useToolFolders,
} from "../support/tool-folders.ts";
import { verifies } from "../support/verifies.ts";

useToolFolders();

interface Folder {
  id: string;
  path: string;
  state: string;
  changes: { path: string; change: string }[];
  errors: Record<string, string>;
  digest: string;
}

const folders = async () => (await gateway.http<{ items: Folder[] }>("GET", "/v1/workspaces")).body.items;

verifies(
  "tools.workspace-trust",
  "loads tools of a workspace once it is trusted, and shows later edits without loading them",
  async () => {
    const path = folder("place", { "tools/place.ts": says("as reviewed"), "other.txt": "not looked at" });
    expect((await call("place")).error?.code).toBe("export.not_found");
    const shown = await cli("workspace", "show", path);
    expect(shown.stdout).toContain("1 file, not trusted");
    expect(shown.stdout).toContain("as reviewed");
    // Without a terminal the command cannot ask for confirmation. No key may access the host's disk, whatever its role.
    expect((await gateway.cli("workspace", "trust", path)).code).toBe(2);
    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "all",
      role: "owner",
      scopes: ["admin"],
    });
    const by = { authorization: `Bearer ${key.body.token}` };
    expect((await gateway.http("POST", "/v1/workspaces", { path }, by)).status).toBe(403);
    expect((await gateway.http("GET", "/v1/workspaces", undefined, by)).status).toBe(403);
    await cli("workspace", "trust", path, "--yes");
    expect(await textOf("place")).toBe("as reviewed");

    writeFileSync(join(path, "tools/place.ts"), says("edited"));
    writeFileSync(join(path, "tools/more.ts"), says("more"));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await textOf("place")).toBe("as reviewed");
    expect((await call("more")).error?.code).toBe("export.not_found");
    const [waiting] = (await folders()).filter((each) => each.path === path);
    expect(waiting).toMatchObject({
      state: "changed",
      changes: [
        { path: "tools/more.ts", change: "added" },
        { path: "tools/place.ts", change: "changed" },
      ],
    });
    const again = await cli("workspace", "show", path);
    expect(again.stdout).toContain("trusted, changed since then");
    expect(again.stdout).toContain("edited");
    // The listed digest is the reviewed one. The files have changed since, so nothing new is trusted.
    const stale = await gateway.http("POST", "/v1/workspaces", { path, digest: waiting!.digest });
    expect([stale.status, (stale.body as { error: { code: string } }).error.code]).toEqual([
      409,
      "workspace.changed",
    ]);
    expect(await textOf("place")).toBe("as reviewed");

    await cli("workspace", "trust", path, "--yes");
    expect([await textOf("place"), await textOf("more")]).toEqual(["edited", "more"]);

    await cli("workspace", "untrust", path, "--yes");
    expect((await call("place")).error?.code).toBe("export.not_found");
    expect(await folders()).toEqual([]);
  },
);

/** Returns how long it took. Reads the list of tools instead of calling the tool, because a call takes longer. */
async function untilDescribedAs(name: string, description: string): Promise<number> {
  return await eventually(
    async () => {
      const { body } = await gateway.http<ToolList>("GET", "/v1/plugin-tools");
      return body.items.find((item) => item.export_id === name)?.description === description;
    },
    20_000,
    `${name} is ${description}`,
  );
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

const described = (text: string) =>
  `export default { description: "${text}", defaultRiskLevel: "low", execute: () => ({ content: "${text}" }) };\n`;

verifies(
  "tools.hot",
  "loads a saved file in under 1 s, and keeps the last working version of a broken file",
  async () => {
    const path = folder("live", { "tools/live.ts": described("first"), "tools/beside.ts": says("beside") });
    await cli("workspace", "trust", path, "--watch", "--yes");
    expect(await textOf("live")).toBe("first");
    const durations: number[] = [];
    for (let save = 0; save < 5; save++) {
      writeFileSync(join(path, "tools/live.ts"), described(`save ${save}`));
      const ms = await untilDescribedAs("live", `save ${save}`);
      durations.push(ms / Math.max(1, measureNodeStart() / NODE_START_IDLE_MS));
    }
    // The limit applies to an idle machine; the measured start time of Node accounts for other load.
    expect(Math.min(...durations)).toBeLessThan(1_000);

    writeFileSync(join(path, "tools/live.ts"), "export default { description: ");
    const errorShown = async () =>
      (await folders())[0]?.errors["tools/live.ts"]?.includes("tools/live.ts") ?? false;
    await eventually(errorShown, 20_000, "the error is shown");
    expect(await textOf("live")).toBe("save 4");
    // Other tools keep working.
    writeFileSync(join(path, "tools/beside.ts"), described("beside two"));
    await untilDescribedAs("beside", "beside two");
    expect([await textOf("live"), await textOf("beside")]).toEqual(["save 4", "beside two"]);

    writeFileSync(join(path, "tools/live.ts"), described("mended"));
    await untilDescribedAs("live", "mended");
    const errorGone = async () => Object.keys((await folders())[0]?.errors ?? {}).length === 0;
    await eventually(errorGone, 20_000, "the error is gone");
    expect(await textOf("live")).toBe("mended");
  },
  180_000,
);

verifies(
  "tools.hot",
  "reloads an editable install after changes to its folder, including those made while the gateway was stopped",
  async () => {
    const path = folder("editable", {
      "package.json": JSON.stringify({ name: "edited-plugin", version: "2.0.0" }),
      "tools/edited.ts": described("one"),
      "words.ts": "export const word: string = 'old';",
    });
    const { stdout } = await cli("plugin", "install", path, "--editable");
    expect(stdout).toMatch(/Linked .* as local\/edited-plugin@2\.0\.0-d/);
    expect(await textOf("edited")).toBe("one");
    writeFileSync(join(path, "tools/edited.ts"), described("two"));
    await untilDescribedAs("edited", "two");
    await gateway.stop();
    writeFileSync(join(path, "tools/edited.ts"), described("three"));
    await restart();
    await untilDescribedAs("edited", "three");
    expect(await textOf("edited")).toBe("three");
  },
  180_000,
);
