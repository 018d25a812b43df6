/** Two scripted registries for a test file, and clients that talk to them with small limits. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Descriptor } from "../../src/oci/descriptors.ts";
import { type OciReference, parseReference } from "../../src/oci/reference.ts";
import {
  createRegistryClient,
  type RegistryClient,
  type RegistryClientOptions,
} from "../../src/oci/registry-client.ts";
import { createScriptedRegistry, type ScriptedRegistry } from "../support/scripted-registry.ts";

export const LIMITS = {
  manifest_bytes: 20_000,
  idle_ms: 5_000,
  request_ms: 20_000,
  blob_ms: 20_000,
  attempts: 4,
  retry_ms: 1,
  pages: 2,
};

interface Registries {
  registry: ScriptedRegistry;
  other: ScriptedRegistry;
  connect: (options?: Partial<RegistryClientOptions>) => RegistryClient;
  /** A reference to a package in the first registry. */
  referenceTo: (name?: string) => OciReference;
  /** A path that does not exist yet. */
  newFile: () => string;
}

/** The registries exist once the tests run; each test starts with empty ones. */
export function useRegistries(): Registries {
  const [registry, other] = [createScriptedRegistry(), createScriptedRegistry()];
  let folder: string;
  let files = 0;
  let clients: RegistryClient[] = [];
  beforeAll(async () => {
    for (const each of [registry, other]) await each.start();
    folder = mkdtempSync(join(tmpdir(), "registry-"));
  });
  afterAll(async () => {
    for (const each of [registry, other]) await each.close();
    rmSync(folder, { recursive: true });
  });
  beforeEach(() => {
    for (const each of [registry, other]) each.reset();
  });
  afterEach(() => {
    for (const client of clients) client.close();
    clients = [];
  });
  return {
    registry,
    other,
    connect(options = {}) {
      const client = createRegistryClient({
        credentials: async () => null,
        addresses: null,
        limits: LIMITS,
        ...options,
      });
      clients.push(client);
      return client;
    },
    referenceTo: (name = "acme/devkit:1.0.0") => parseReference(`oci://${registry.host}/${name}`),
    newFile: () => join(folder, `blob-${files++}`),
  };
}

export const descriptor = (digest: string, size: number): Descriptor => ({
  media_type: "application/octet-stream",
  digest,
  size,
  artifact_type: null,
  annotations: {},
  platform: null,
});

/** Uploads two blobs and returns a manifest that lists them. */
export const manifestWithBlobs = (registry: ScriptedRegistry) => ({
  mediaType: "application/vnd.oci.image.manifest.v1+json",
  config: registry.putBlob("config"),
  layers: [registry.putBlob("layer")],
});

export async function catchRejection(work: Promise<unknown>): Promise<BackplaneError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(BackplaneError);
  return error as BackplaneError;
}
