/** An Agent Plugins 1.0 folder, installed with one command and left unchanged. */
import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

const FOLDER = resolve("test/fixtures/agent-plugin");

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
}, 60_000);
afterAll(() => gateway.dispose());

function fingerprintOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map((file) => join(file.parentPath, file.name)).sort();
  return hash("sha256", JSON.stringify(paths.map((path) => [path, readFileSync(path, "utf8")])));
}

verifies(
  "bridge.agent-plugins",
  "installs plugin.json, mcp.json and skills/ unchanged: servers become tools, skills can be found and read",
  async () => {
    const original = fingerprintOf(FOLDER);
    const installed = await gateway.cli("plugin", "install", FOLDER);
    expect(installed.stderr).toContain("Skipped server old");
    // Exit code 8: two servers and one skill of the folder are invalid.
    expect([installed.code, installed.stdout]).toEqual([
      8,
      expect.stringContaining("Bound office-kit/skills"),
    ]);
    expect(fingerprintOf(FOLDER)).toBe(original);

    const invoke = async (tool: string, input: object) => {
      const { code, stdout, stderr } = await gateway.cli("invoke", tool, "--input", JSON.stringify(input));
      expect([code, stderr]).toEqual([0, expect.anything()]);
      return stdout.trim();
    };
    expect(await invoke("mcp_notes_greet", {})).toBe("hello");
    expect(await invoke("mcp_notes_note", { text: "milk" })).toBe("1 kept");
    expect(await invoke("skill", {})).toContain("fill-forms: Fills in paper forms.");
    expect(await invoke("skill", { name: "fill-forms" })).toContain(
      "Files of this skill: references/boxes.md",
    );
    expect(await invoke("skill", { name: "fill-forms", file: "references/boxes.md" })).toContain("Box 1");

    await gateway.http("PUT", "/v1/secrets/unused", { value: "hunter2-hunter2" });
    const unknown_slot = await gateway.cli("plugin", "install", FOLDER, "--secret", "nothing=unused");
    expect([unknown_slot.code, unknown_slot.stderr]).toEqual([
      2,
      expect.stringContaining("has the secret slot nothing"),
    ]);
    const again = await gateway.cli("plugin", "install", FOLDER);
    expect(again.code).toBe(8);
  },
);

test("installs a folder over HTTP with the admin token and an archive with an API key, and all or nothing in strict mode", async () => {
  interface InstallResult {
    packages: { package: { package_id: string }; created: boolean; binding: object }[];
    left_out: { kind: string; name: string; reason: string }[];
  }
  const other_folder = mkdtempSync(join(tmpdir(), "backplane-agent-plugin-"));
  cpSync(FOLDER, other_folder, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(FOLDER, "plugin.json"), "utf8")) as object;
  writeFileSync(join(other_folder, "plugin.json"), JSON.stringify({ ...manifest, name: "other-kit" }));
  try {
    const listInstalled = async () =>
      (await gateway.http<{ items: { package_id: string }[] }>("GET", "/v1/plugin-packages")).body.items
        .map(({ package_id }) => package_id)
        .filter((id) => id.startsWith("other-kit/"))
        .sort();
    const source = { source: { folder: other_folder } };
    const strict = await gateway.http<{ error: { details: InstallResult } }>(
      "POST",
      "/v1/agent-plugins?strict=1",
      source,
    );
    expect([strict.status, await listInstalled()]).toEqual([422, []]);
    expect(strict.body.error.details.left_out.map(({ name }) => name)).toEqual(["old", "empty", "Broken"]);

    const { body: key } = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "installer",
      scopes: ["packages:write", "bindings:write"],
      role: "owner",
    });
    const archive = execFileSync("tar", ["czf", "-", "-C", other_folder, "."]);
    const send = (body: string | Uint8Array<ArrayBuffer>, type: string) =>
      fetch(`${gateway.url}/v1/agent-plugins`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.token}`, "content-type": type },
        body,
      });
    expect((await send(JSON.stringify(source), "application/json")).status).toBe(403);
    const uploaded = await send(new Uint8Array(archive), "application/gzip");
    const result = (await uploaded.json()) as InstallResult;
    expect([uploaded.status, result.left_out.map(({ kind, name }) => `${kind} ${name}`)]).toEqual([
      201,
      ["server old", "server empty", "skill Broken"],
    ]);
    expect(await listInstalled()).toEqual(["other-kit/notes", "other-kit/skills"]);

    const again = await gateway.http<InstallResult>("POST", "/v1/agent-plugins", source);
    expect(again.body.packages.map(({ created }) => created)).toEqual([false, false]);
    const notes = again.body.packages.find(
      ({ package: { package_id } }) => package_id === "other-kit/notes",
    )!;
    expect(notes.binding).toMatchObject({
      export_id: "*",
      config: { args: ["./server/main.mjs", "--greeting", "hello"] },
    });
    // The first test's plugin already has a server with this name.
    expect((await gateway.http("POST", "/v1/plugin-bindings", notes.binding)).status).toBe(409);
    const { config } = notes.binding as { config: object };
    const named = { ...notes.binding, config: { ...config, name: "others" } };
    const bound = await gateway.http<{ binding_id: string }>("POST", "/v1/plugin-bindings", named);
    const { body } = await gateway.http<{ exports: object[] }>(
      "GET",
      `/v1/plugin-bindings/${bound.body.binding_id}/definitions`,
    );
    expect(body.exports).toMatchObject([{ id: "mcp_others_greet" }, { id: "mcp_others_note" }]);
    const refused = await gateway.http("POST", "/v1/agent-plugins", { source: { folder: resolve("docs") } });
    expect(refused.status).toBe(422);
  } finally {
    rmSync(other_folder, { recursive: true, force: true });
  }
});
