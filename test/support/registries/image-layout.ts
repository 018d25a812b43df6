/** The image of an MCP server in C, for a registry. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { type LayerEntry, packLayer } from "../../../packages/supply/test/support/image-layers.ts";

/** Writes an image layout with two layers: a static program with a file to remove, and the layer that removes it. */
export async function writeImageLayout(folder: string): Promise<string> {
  const dir = join(folder, "layout");
  const program = join(folder, "server");
  execFileSync("gcc", ["-static", "-O1", "-o", program, resolve("test/fixtures/image-server.c")]);
  const lower: LayerEntry[] = [
    { name: "app/server", body: readFileSync(program), mode: 0o4755 },
    { name: "app/removed", body: "x" },
    { name: "notes/note", body: "from the image" },
    { name: "link", type: "symlink", linkname: "/notes" },
    { name: "etc/passwd", type: "symlink", linkname: "/app/removed" },
  ];
  const layers = [await packLayer(lower), await packLayer([{ name: "app/.wh.removed", body: "" }])];
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
