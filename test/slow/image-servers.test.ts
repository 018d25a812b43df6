/** MCP servers in container images, from a real registry, in the sandbox of a real gateway. */
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LayerEntry, layerOf } from "../../packages/supply/test/image-layers.ts";
import { type DockerRegistry, startDockerRegistry } from "../support/docker-registry.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { callTool } from "../support/mcp-server.ts";
import { verifies } from "../support/verifies.ts";

let registry: DockerRegistry;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-images-"));
  chmodSync(folder, 0o755);
  registry = await startDockerRegistry({ login: false });
  const layout = await writeLayout(join(folder, "layout"));
  await registry.skopeo(
    "copy",
    "--insecure-policy",
    "--dest-tls-verify=false",
    `oci:${layout}:1.0`,
    `docker://${registry.host}/acme/look:1.0`,
  );
}, 60_000);
afterAll(() => {
  registry?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** An image layout with two layers: a static program with a file to remove, and the layer that removes it. */
async function writeLayout(dir: string): Promise<string> {
  const program = join(folder, "server");
  execFileSync("gcc", ["-static", "-O1", "-o", program, resolve("test/fixtures/image-server.c")]);
  const lower: LayerEntry[] = [
    { name: "app/server", body: readFileSync(program), mode: 0o4755 },
    { name: "app/removed", body: "x" },
    { name: "notes/note", body: "from the image" },
    { name: "link", type: "symlink", linkname: "/notes" },
    { name: "etc/passwd", type: "symlink", linkname: "/app/removed" },
  ];
  const layers = [await layerOf(lower), await layerOf([{ name: "app/.wh.removed", body: "" }])];
  mkdirSync(join(dir, "blobs", "sha256"), { recursive: true });
  const put = (bytes: Buffer, mediaType: string) => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(dir, "blobs", "sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const type = (name: string) => `application/vnd.oci.image.${name}`;
  const config = {
    os: "linux",
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    config: {
      Entrypoint: ["server"],
      Cmd: ["by-default"],
      Env: ["PATH=/app", "LEVEL=low"],
      WorkingDir: "/notes",
    },
    rootfs: {
      type: "layers",
      diff_ids: layers.map((bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`),
    },
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: type("manifest.v1+json"),
    config: put(Buffer.from(JSON.stringify(config)), type("config.v1+json")),
    layers: layers.map((bytes) => put(gzipSync(bytes), type("layer.v1.tar+gzip"))),
  };
  const described = put(Buffer.from(JSON.stringify(manifest)), manifest.mediaType);
  const annotations = { "org.opencontainers.image.ref.name": "1.0" };
  writeFileSync(
    join(dir, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...described, annotations }] }),
  );
  writeFileSync(join(dir, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return dir;
}

function homeWith(name: string): string {
  const home = join(folder, name);
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${registry.host}"]\n`);
  return home;
}

const SEEN = {
  cwd: "/notes",
  note: "from the image",
  host: false,
  root_writable: false,
  tmp_writable: true,
  removed: true,
  uid: 1000,
};

async function look(gateway: TestGateway, name: string): Promise<object> {
  const { tool_result, error } = await callTool(gateway, `mcp_${name}_look`, {});
  expect(error, gateway.log().slice(-2_000)).toBeNull();
  return JSON.parse(tool_result!.content[0]!.text) as object;
}

verifies(
  "source.image",
  "runs the server of an image in the sandbox, with its arguments and secrets and with the image as its root",
  async () => {
    const gateway = await startTestGateway({ home: homeWith("root") });
    try {
      await gateway.http("PUT", "/v1/secrets/api_key", { value: "twelve-chars" });
      const reference = `image:${registry.host}/acme/look:1.0`;
      const installed = await gateway.cli("plugin", "install", reference, "--secret", "api_key=api_key");
      expect(installed, installed.stderr).toMatchObject({ code: 0 });
      expect(await look(gateway, "look")).toEqual({
        ...SEEN,
        argument: "by-default",
        level: "low",
        secret: "twelve-chars".length,
      });
      const mcpServers = {
        docker: {
          command: "docker",
          args: [
            "run",
            "-i",
            "--rm",
            "-e",
            "LEVEL=high",
            "-v",
            "/srv:/data",
            `${registry.host}/acme/look:1.0`,
            "mine",
          ],
        },
      };
      // The same image with arguments is another package of the same version.
      for (const { binding_id } of (
        await gateway.http<{ items: { binding_id: string }[] }>("GET", "/v1/plugin-bindings")
      ).body.items)
        await gateway.http("DELETE", `/v1/plugin-bindings/${binding_id}`);
      const packages = await gateway.http<{ items: { id: string }[] }>("GET", "/v1/plugin-packages");
      for (const { id } of packages.body.items) await gateway.http("DELETE", `/v1/plugin-packages/${id}`);
      writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers }));
      const again = await gateway.cli("plugin", "install", join(folder, "mcp.json"));
      expect(again, again.stderr).toMatchObject({ code: 0 });
      expect(again.stderr).toContain("backplane binding set docker --mount /srv:/data:rw");
      expect(await look(gateway, "docker")).toMatchObject({ ...SEEN, argument: "mine", level: "high" });
    } finally {
      await gateway.dispose();
    }
  },
);

test.runIf(process.getuid!() === 0)("an ordinary user's gateway runs the same image", async () => {
  const own = join(folder, "ordinary");
  mkdirSync(own);
  const home = homeWith("ordinary/home");
  const script = `
    import { startTestGateway } from ${JSON.stringify(resolve("test/support/gateway.ts"))};
    const gateway = await startTestGateway({ home: ${JSON.stringify(home)} });
    const source = { kind: "image", reference: "${registry.host}/acme/look:1.0" };
    const installed = await gateway.http("POST", "/v1/plugin-installations", { source });
    const call = await gateway.http("POST", "/v1/invocations?wait=60", { export_id: "mcp_look_look", input: {} });
    await gateway.stop();
    console.log(JSON.stringify({ installed, call: call.body }));
  `;
  writeFileSync(join(own, "run.mts"), script);
  execFileSync("chown", ["-R", "65534:65534", own]);
  const { stdout } = await promisify(execFile)(process.execPath, [join(own, "run.mts")], {
    uid: 65_534,
    gid: 65_534,
    cwd: process.cwd(),
    env: { PATH: "/usr/bin:/bin", HOME: own, TMPDIR: own },
    timeout: 300_000,
  });
  const { installed, call } = JSON.parse(stdout.trim().split("\n").at(-1)!) as {
    installed: { status: number };
    call: { status: string; tool_result: { content: { text: string }[] } };
  };
  expect(installed.status, stdout).toBe(201);
  expect(call.status, stdout).toBe("succeeded");
  expect(JSON.parse(call.tool_result.content[0]!.text)).toMatchObject(SEEN);
});
