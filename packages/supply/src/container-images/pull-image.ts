/**
 * Pulls a container image from its registry, without a container engine. Reads the manifest for this platform, the
 * configuration and the layers, verifies each by its digest, and applies the layers.
 */
import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { type Operation, requireNotCancelled } from "@backplane/ports";
import type { HostPlatform } from "../manifest/host-platform.ts";
import type { ImageManifest } from "../oci/descriptors.ts";
import type { OciReference } from "../oci/reference.ts";
import type { RegistryClient } from "../oci/registry-client.ts";
import { unreachableRegistry } from "../oci/registry-errors.ts";
import { applyLayer, type LayerSpool } from "./apply-layer.ts";
import { type ImageConfig, readImageConfig } from "./image-config.ts";
import { IMAGE_LIMITS, type ImageLimits } from "./image-limits.ts";
import { formatImageReference } from "./image-reference.ts";
import { ImageTree } from "./image-tree.ts";

export interface PulledImage {
  reference: OciReference;
  /** The digest of the manifest for this platform. */
  digest: string;
  manifest: ImageManifest;
  config: ImageConfig;
  tree: ImageTree;
  /** The contents of the image's files. */
  spool: LayerSpool;
}

const MAX_CONFIG_BYTES = 1024 * 1024;
const LAYER =
  /^application\/vnd\.(?:oci\.image\.layer\.v1\.tar|docker\.image\.rootfs\.diff\.tar)(?:[+.](?:gzip|zstd))?$/;

/** `folder` gets the downloaded layers and the spool file. The caller closes the spool. */
export async function pullImage(
  registry: RegistryClient,
  reference: OciReference,
  host: HostPlatform,
  folder: string,
  operation: Operation,
  limits: ImageLimits = IMAGE_LIMITS,
): Promise<PulledImage> {
  const timeout = AbortSignal.timeout(limits.pull_ms);
  const signal = AbortSignal.any([operation.signal, timeout]);
  try {
    const limited_operation: Operation = { signal, report: (progress) => operation.report(progress) };
    return await pullLayers(registry, reference, host, folder, limited_operation, limits);
  } catch (error) {
    if (!timeout.aborted || operation.signal.aborted) throw error;
    throw unreachableRegistry(reference.registry, "pulling the image took too long", error);
  }
}

async function pullLayers(
  registry: RegistryClient,
  reference: OciReference,
  host: HostPlatform,
  folder: string,
  operation: Operation,
  limits: ImageLimits,
): Promise<PulledImage> {
  const reference_text = formatImageReference(reference);
  const { signal } = operation;
  operation.report({ step: "resolve", message: `Reading the manifest of ${reference_text}` });
  const { digest, manifest } = await findManifest(registry, reference, host, reference_text, signal);
  const total = manifest.layers.reduce((sum, { size }) => sum + size, 0);
  if (total > limits.unpacked_bytes)
    throw new BackplaneError(
      "package.unsafe",
      `The layers of ${reference_text} have ${total} bytes; the limit is ${limits.unpacked_bytes}.`,
    );
  const config = readImageConfig(
    await registry.readBlob(reference, manifest.config, MAX_CONFIG_BYTES, { signal }),
    reference_text,
  );
  requirePlatform(config, host, reference_text);
  if (config.diff_ids.length !== manifest.layers.length)
    throw new BackplaneError(
      "package.invalid",
      `${reference_text} lists different numbers of layers in its manifest and in its configuration.`,
    );
  const spool: LayerSpool = {
    handle: await open(join(folder, "spool"), "wx+", 0o600),
    bytes: 0,
    entries: 0,
    unpacked: 0,
  };
  try {
    const tree = new ImageTree(limits);
    let downloaded = 0;
    for (const [index, layer] of manifest.layers.entries()) {
      requireNotCancelled(operation);
      if (!LAYER.test(layer.media_type))
        throw new BackplaneError(
          "package.invalid",
          `${reference_text} has a layer of the unsupported type ${layer.media_type}.`,
        );
      const message = `Downloading ${reference_text}, layer ${index + 1} of ${manifest.layers.length}`;
      const onReceived = (bytes: number) =>
        operation.report({ step: "download", message, done: downloaded + bytes, total, unit: "bytes" });
      const file = join(folder, `layer-${index}`);
      await registry.fetchBlob(reference, layer, file, { signal, onReceived });
      downloaded += layer.size;
      operation.report({ step: "unpack", message: `Unpacking layer ${index + 1} of ${reference_text}` });
      const diff_id = await applyLayer(tree, index, createReadStream(file), spool, limits);
      if (diff_id !== config.diff_ids[index])
        throw wrongLayer(reference_text, config.diff_ids[index]!, diff_id);
      await rm(file);
    }
    return { reference, digest, manifest, config, tree, spool };
  } catch (error) {
    await spool.handle.close();
    throw error;
  }
}

async function findManifest(
  registry: RegistryClient,
  reference: OciReference,
  host: HostPlatform,
  reference_text: string,
  signal: AbortSignal,
): Promise<{ digest: string; manifest: ImageManifest }> {
  const root_manifest = await registry.fetchManifest(reference, { signal });
  if (root_manifest.document.kind === "manifest")
    return { digest: root_manifest.digest, manifest: root_manifest.document };
  const { manifests } = root_manifest.document;
  const match = manifests.find(
    ({ platform }) => platform?.os === host.os && platform.architecture === host.arch,
  );
  if (match === undefined) {
    const supported = manifests.flatMap(({ platform }) =>
      platform === null || platform.os === "unknown" ? [] : [`${platform.os}/${platform.architecture}`],
    );
    throw wrongPlatform(reference_text, host, supported);
  }
  const platform_manifest = await registry.fetchManifest({ ...reference, digest: match.digest }, { signal });
  if (platform_manifest.bytes.length !== match.size)
    throw new BackplaneError(
      "package.invalid",
      `The manifest of ${reference_text} has ${platform_manifest.bytes.length} bytes instead of ${match.size}.`,
    );
  if (platform_manifest.document.kind !== "manifest")
    throw new BackplaneError("package.invalid", `The index of ${reference_text} refers to another index.`);
  return { digest: platform_manifest.digest, manifest: platform_manifest.document };
}

function requirePlatform(
  { os, architecture }: ImageConfig,
  host: HostPlatform,
  reference_text: string,
): void {
  if (os !== host.os || architecture !== host.arch)
    throw wrongPlatform(reference_text, host, [`${os}/${architecture}`]);
}

function wrongPlatform(
  reference_text: string,
  host: HostPlatform,
  supported: readonly string[],
): BackplaneError {
  return new BackplaneError(
    "package.platform",
    `${reference_text} does not run on ${host.os}/${host.arch}; it supports ${supported.join(", ") || "no platform"}.`,
    { details: { host: `${host.os}/${host.arch}`, supported: [...supported] } },
  );
}

function wrongLayer(reference_text: string, expected: string, actual: string): BackplaneError {
  return new BackplaneError(
    "package.digest_mismatch",
    `A layer of ${reference_text} does not match the configuration of the image.`,
    { details: { expected, actual } },
  );
}
