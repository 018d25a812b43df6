/** Folders that the operator trusts: later edits await review. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import {
  call,
  callForText,
  cli,
  gateway,
  toolSource,
  useToolFolders,
  writeToolsFolder,
} from "../support/plugins/tool-folders.ts";
import { verifies } from "../support/verifies.ts";

useToolFolders();

interface Folder {
  id: string;
  path: string;
  state: string;
  changes: { path: string; change: string }[];
  digest: string;
}

const listFolders = async () => (await gateway.http<{ items: Folder[] }>("GET", "/v1/workspaces")).body.items;

verifies(
  "tools.workspace-trust",
  "loads tools of a workspace once it is trusted, and shows later edits without loading them",
  async () => {
    const path = writeToolsFolder("place", {
      "tools/place.ts": toolSource("as reviewed"),
      "other.txt": "not looked at",
    });
    expect((await call("place")).error?.code).toBe("export.not_found");
    const workspace_output = await cli("workspace", "show", path);
    expect(workspace_output.stdout).toContain("1 file, not trusted");
    expect(workspace_output.stdout).toContain("as reviewed");
    // Without a terminal the command cannot ask for confirmation. No key may access the host's disk, whatever its role.
    expect((await gateway.cli("workspace", "trust", path)).code).toBe(2);
    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "all",
      role: "owner",
      scopes: ["admin"],
    });
    const key_headers = { authorization: `Bearer ${key.body.token}` };
    expect((await gateway.http("POST", "/v1/workspaces", { path }, key_headers)).status).toBe(403);
    expect((await gateway.http("GET", "/v1/workspaces", undefined, key_headers)).status).toBe(403);
    await cli("workspace", "trust", path, "--yes");
    expect(await callForText("place")).toBe("as reviewed");

    writeFileSync(join(path, "tools/place.ts"), toolSource("edited"));
    writeFileSync(join(path, "tools/more.ts"), toolSource("more"));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await callForText("place")).toBe("as reviewed");
    expect((await call("more")).error?.code).toBe("export.not_found");
    const [waiting] = (await listFolders()).filter((each) => each.path === path);
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
    expect(await callForText("place")).toBe("as reviewed");

    await cli("workspace", "trust", path, "--yes");
    expect([await callForText("place"), await callForText("more")]).toEqual(["edited", "more"]);

    await cli("workspace", "untrust", path, "--yes");
    expect((await call("place")).error?.code).toBe("export.not_found");
    expect(await listFolders()).toEqual([]);
  },
);
