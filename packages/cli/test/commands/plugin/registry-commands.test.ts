/** `plugin pull` from a registry whose manifest names the listing of one package and the layer of another one. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packLayout } from "@backplane/supply";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { HELLO, writeFolder } from "../../../../supply/test/support/plugin-folder.ts";
import { createScriptedRegistry } from "../../../../supply/test/support/scripted-registry.ts";
import { EXIT } from "../../../src/command-line/exit-codes.ts";
import { runProgram } from "../../../src/index.ts";
import { captureIo } from "../../support/capture-io.ts";

const registry = createScriptedRegistry();
let root: string;
beforeAll(async () => {
  await registry.start();
  root = mkdtempSync(join(tmpdir(), "backplane-pull-"));
});
afterAll(async () => {
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

/** Uploads the blobs of a package and returns its manifest. */
async function publish(name: string): Promise<{ config: object; layers: object[] }> {
  const layout = join(root, name);
  const files = writeFolder(`${layout}-files`, { ...HELLO, "README.md": name });
  const { manifest_digest } = await packLayout(files, layout);
  const blobs = join(layout, "blobs/sha256");
  for (const blob of readdirSync(blobs)) registry.putBlob(readFileSync(join(blobs, blob)));
  return JSON.parse(readFileSync(join(blobs, manifest_digest.slice("sha256:".length)), "utf8"));
}

verifies(
  "pkg.oci",
  "refuses to pull a layer with other files than the listing, and leaves no file",
  async () => {
    const [first, second] = [await publish("first"), await publish("second")];
    registry.putManifest(first, "1.0.0");
    registry.putManifest({ ...first, layers: second.layers }, "2.0.0");
    const cwd = join(root, "downloads");
    mkdirSync(cwd);
    const pull = async (tag: string, out: string) => {
      const io = captureIo({ cwd, env: { HOME: root } });
      const source = `oci://${registry.host}/acme/hello:${tag}`;
      return { exit: await runProgram(["plugin", "pull", source, "-o", out, "--json"], io), io };
    };
    for (const out of ["hello.tgz", "hello.tar", "hello.oci"]) {
      const { exit, io } = await pull("2.0.0", out);
      expect({ exit, err: io.err() }).toEqual({
        exit: EXIT.trust,
        err: expect.stringContaining("package.digest_mismatch"),
      });
      expect(readdirSync(cwd)).toEqual([]);
    }
    expect((await pull("1.0.0", "hello.oci")).exit).toBe(EXIT.ok);
    expect(readdirSync(cwd)).toEqual(["hello.oci"]);
    expect(readdirSync(join(cwd, "hello.oci")).sort()).toEqual(["blobs", "index.json", "oci-layout"]);
  },
);
