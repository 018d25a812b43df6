/** Files in a plugin's scratch folder: results, which a caller who may read the call can fetch, and large inputs. */
import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
beforeAll(async () => {
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), "[limits]\nbody_bytes = 8388608\n");
  gateway = await startTestGateway({ home });
  const folder = writePluginFolder({
    package_id: "acme/files",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/files", FILES) },
    exports: [{ id: "files", extra: '[exports.permissions]\nfilesystem = "scratch"' }, { id: "bare" }],
  });
  await installAndBind(gateway, folder, ["files", "bare"], { class: "isolated" });
});
afterAll(async () => {
  await gateway.dispose();
});

/** Writes a file, links it or measures its input, depending on the input. */
const FILES = `async ({ body }) => {
  const fs = await import("node:fs");
  const { input, context } = body;
  const file = context.scratch_dir + "/out.bin";
  if (input.transport === "artifact") {
    const bytes = fs.readFileSync(context.scratch_dir + "/" + input.path);
    return { status: "succeeded", result: { content: [], structured_output: { bytes: bytes.length, announced: input.bytes } } };
  }
  if (input.link) fs.symlinkSync(input.link, file);
  else if (input.bytes) fs.writeFileSync(file, Buffer.alloc(input.bytes, "b"));
  return { status: "succeeded", result: { content: [], structured_output: { transport: "artifact", path: input.path ?? "out.bin" } } };
}`;

interface EndedCall {
  id: string;
  status: string;
  result: { structured_output: { sha256: string; bytes: number; announced?: number } };
  error: { code: string; details: { reason?: string } } | null;
}

const invoke = async (input: unknown, export_id = "files") =>
  (await gateway.http<EndedCall>("POST", "/v1/invocations?wait=30", { export_id, input })).body;

verifies(
  "inv.artifacts",
  "serves output larger than a frame completely, and only to callers who may read the call",
  async () => {
    const bytes = Buffer.alloc(3_000_000, "b");
    const sha256 = hash("sha256", bytes, "hex");
    const ended = await invoke({ bytes: bytes.length });
    expect(ended.result.structured_output).toEqual({
      transport: "artifact",
      path: "out.bin",
      bytes: bytes.length,
      sha256,
    });
    const path = `/v1/invocations/${ended.id}/artifacts/${sha256}`;
    const read = (headers: Record<string, string>) => fetch(gateway.url + path, { headers });
    const response = await read({ authorization: `Bearer ${gateway.token}` });
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    expect(response.headers.get("content-disposition")).toContain("attachment");
    expect(hash("sha256", Buffer.from(await response.arrayBuffer()), "hex")).toBe(sha256);
    expect((await read({})).status).toBe(401);
    const other = { authorization: `Bearer ${gateway.token}`, "backplane-project": "proj_other" };
    expect((await read(other)).status).toBe(404);

    const file = join(gateway.home, "fetched");
    const fetched = await gateway.cli("invocation", "artifact", ended.id, sha256, "-o", file);
    expect(fetched.code).toBe(0);
    expect(readFileSync(file).equals(bytes)).toBe(true);

    // The hash alone is not enough: the named call must refer to it.
    const other_call = await invoke({ bytes: 5 });
    const wrong = await gateway.http<{ error: { code: string } }>(
      "GET",
      `/v1/invocations/${other_call.id}/artifacts/${sha256}`,
    );
    expect([wrong.status, wrong.body.error.code]).toEqual([404, "artifact.not_found"]);
    writeFileSync(join(gateway.home, "blobs", "artifacts", sha256), "changed");
    expect((await read({ authorization: `Bearer ${gateway.token}` })).status).toBe(404);
  },
);

verifies("inv.artifacts", "refuses a reference outside scratch and records the refusal", async () => {
  for (const [input, reason] of [
    [{ path: "../../etc/passwd" }, "bad_path"],
    [{ link: "/etc/passwd" }, "link"],
  ] as const) {
    const { id } = await invoke(input);
    const { body } = await gateway.http<EndedCall>("GET", `/v1/invocations/${id}`);
    expect(body).toMatchObject({
      status: "failed",
      error: { code: "artifact_refused", details: { reason } },
    });
  }
});

verifies(
  "inv.artifacts",
  "passes large input as a file to an export with scratch, and otherwise refuses it with a remedy",
  async () => {
    const input = { text: "x".repeat(2_000_000) };
    const bytes = JSON.stringify(input).length;
    expect((await invoke(input)).result.structured_output).toEqual({ bytes, announced: bytes });
    expect(await invoke(input, "bare")).toMatchObject({
      error: { code: "input.invalid", message: expect.stringContaining("filesystem = scratch") },
    });
    const refused = await invoke({ transport: "artifact", path: "input.json" });
    expect(refused).toMatchObject({ error: { code: "input.invalid" } });
  },
);
