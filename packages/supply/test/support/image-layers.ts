/** Builds layers of container images, valid or not, and puts images of them into a scripted registry. */
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { type Header, pack } from "tar-stream";
import { type ScriptedRegistry, sha256 } from "./scripted-registry.ts";

export type LayerEntry = Partial<Header> & { name: string; body?: string | Buffer };

export async function packLayer(entries: readonly LayerEntry[]): Promise<Buffer> {
  const packed = pack();
  for (const { body, ...header } of entries) packed.entry({ mtime: new Date(0), ...header }, body ?? "");
  packed.finalize();
  return await buffer(packed);
}

export interface ImageContent {
  layers: readonly Buffer[];
  config?: object;
  os?: string;
  architecture?: string;
  /** Replaces the digests of the uncompressed layers. */
  diff_ids?: string[];
}

/** Returns the descriptor of the manifest. */
export function putImage(registry: ScriptedRegistry, content: ImageContent, tag?: string) {
  const { layers, config = {}, os = "linux", architecture = "amd64" } = content;
  const diff_ids = content.diff_ids ?? layers.map((layer) => sha256(layer));
  const image_config = { os, architecture, config, rootfs: { type: "layers", diff_ids } };
  const manifest = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: {
      ...registry.putBlob(JSON.stringify(image_config)),
      mediaType: "application/vnd.oci.image.config.v1+json",
    },
    layers: layers.map((layer) => ({
      ...registry.putBlob(gzipSync(layer)),
      mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
    })),
  };
  const digest = registry.putManifest(manifest, tag);
  const size = registry.manifests.get(digest)!.length;
  return { mediaType: manifest.mediaType, digest, size, platform: { os, architecture } };
}
