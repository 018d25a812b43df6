/**
 * Opens plugins under test as they would be installed: packed with their .vaiignore, unpacked, checked and run from
 * verified copies. All files are in a temporary folder, and no gateway is needed.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Json, Manifest } from "@backplane/contract";
import type { Logger, SchemaCheck } from "@backplane/ports";
import { createRunner, type ProgramRequest, type StartedProgram } from "@backplane/runner";
import {
  createPackageImporter,
  createSchemas,
  type HostPlatform,
  openContentStore,
  openPackageImages,
} from "@backplane/supply";

export interface OpenedPackage {
  manifest: Manifest;
  digest: string;
  /** Compiles the schema at this path of the package; null without a path. */
  compileSchema(path: string | undefined): Promise<SchemaCheck | null>;
  getSchema(path: string | undefined): Json | null;
  start(grant: ProgramRequest["grant"]): Promise<StartedProgram>;
  release(): void;
}

export interface PackageHomeOptions {
  /** The version of Backplane, which the host sends in its hello. */
  version: string;
  host: HostPlatform;
  log: Logger;
}

/** The content store, sandbox and schema compiler that the opened packages share. */
export interface PackageHome {
  /** Throws `package.*` if the folder cannot be installed. */
  open(folder: string): Promise<OpenedPackage>;
  close(): Promise<void>;
}

const CLOSE_TIMEOUT_MS = 2_000;

export async function openPackageHome({ version, host, log }: PackageHomeOptions): Promise<PackageHome> {
  const home = await mkdtemp(join(tmpdir(), "backplane-test-plugin-"));
  const store = openContentStore(join(home, "blobs"));
  const schemas = createSchemas();
  const files = openPackageImages({ store, dir: join(home, "images"), log });
  const runner = createRunner({
    files,
    clock: SYSTEM_CLOCK,
    scratch_root: join(home, "scratch"),
    host: { name: "backplane", version },
    sandbox: {},
    limits: { prewarmed: 0 },
    log,
  });
  const importer = createPackageImporter({ store, schemas, host });
  return {
    async open(folder) {
      const {
        digest,
        manifest,
        schemas: parsed_schemas,
      } = await importer.import({ kind: "folder", path: folder });
      const image = await files.open(digest);
      const getSchema = (path: string | undefined) =>
        path === undefined ? null : (parsed_schemas[path] ?? null);
      return {
        manifest,
        digest,
        getSchema,
        compileSchema: async (path) =>
          path === undefined ? null : await schemas.compile(`${digest}/${path}`, getSchema(path)),
        start: (grant) =>
          runner.startProgram({
            package_id: manifest.package_id,
            runtime: manifest.runtime,
            folder: image.folder,
            grant,
          }),
        release: () => image.release(),
      };
    },
    async close() {
      await runner.close(CLOSE_TIMEOUT_MS);
      await files.close();
      await schemas.close();
      await rm(home, { recursive: true, force: true });
    },
  };
}

const SYSTEM_CLOCK = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms: number, run: () => void) => {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};
