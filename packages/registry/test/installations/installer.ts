/** A kernel with the real importer and content store, and the sources that the tests install. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Writable } from "node:stream";
import type { InstallationSettings } from "@backplane/contract";
import type { Caller, InstallationSource, Store } from "@backplane/ports";
import { openSqliteStore } from "@backplane/store";
import { createPackageImporter, openContentStore, packFolder } from "@backplane/supply";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { admin, seedTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { expect, onTestFinished } from "vitest";

export interface Installer {
  fixture: TestKernel;
  install(
    source: InstallationSource,
    settings?: InstallationSettings,
    caller?: Caller,
  ): Promise<InstallResult>;
  /** Writes a folder with these files. */
  writeFolder(name: string, files: Record<string, string>): string;
  /** The ids and versions of the installed packages. */
  listPackages(): Promise<string[]>;
  listBindings(): Promise<string[]>;
  listDigests(): string[];
  /** Names of the write operations of the store that change packages and bindings, in order. */
  writes: string[];
}

type InstallResult = Awaited<ReturnType<TestKernel["kernel"]["installations"]["install"]>>;

export async function openSqlite(): Promise<Store> {
  const dir = mkdtempSync(join(tmpdir(), "backplane-store-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, "store.db");
  await copyEmptyStore(file);
  return await openSqliteStore({ file, threaded: false });
}

/** Fails if a package, a binding or bytes were stored. */
export async function expectNothingStored(installer: Installer): Promise<void> {
  expect(await installer.listPackages()).toEqual([]);
  expect(await installer.listBindings()).toEqual([]);
  expect(installer.listDigests()).toEqual([]);
}

export async function createInstaller(store: Store): Promise<Installer> {
  const home = mkdtempSync(join(tmpdir(), "backplane-installer-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const schemas = shareSchemas();
  const writes: string[] = [];
  const packages = createPackageImporter({
    store: openContentStore(join(home, "blobs")),
    schemas,
    host: { os: "linux", arch: "amd64" },
  });
  const fixture = await seedTestKernel(recordWrites(store, writes), "", { packages });
  const all = { limit: 100 };
  return {
    fixture,
    writes,
    install: (source, settings = {}, caller = admin) =>
      fixture.kernel.installations.install(caller, source, settings),
    writeFolder(name, files) {
      const dir = join(home, name);
      for (const [file, text] of Object.entries(files)) {
        mkdirSync(dirname(join(dir, file)), { recursive: true });
        writeFileSync(join(dir, file), text, { mode: file.startsWith("bin/") ? 0o755 : 0o644 });
      }
      return dir;
    },
    listPackages: async () =>
      (await store.packages.list("org_local", all)).items
        .map(({ package_id, version }) => `${package_id}@${version}`)
        .sort(),
    listBindings: async () =>
      (await store.bindings.list(admin.scope, {}, all)).items
        .map((binding) => `${binding.package_id}@${binding.package_version} ${binding.export_id}`)
        .sort(),
    listDigests() {
      const dir = join(home, "blobs/sha256");
      return existsSync(dir) ? readdirSync(dir) : [];
    },
  };
}

function recordWrites(store: Store, writes: string[]): Store {
  const record = <T extends object>(port: T, name: string, methods: (keyof T & string)[]): T => {
    const wrapped = { ...port };
    for (const method of methods) {
      const run = port[method] as (...args: unknown[]) => unknown;
      Object.assign(wrapped, {
        [method]: (...args: unknown[]) => {
          writes.push(`${name}.${method}`);
          return run(...args);
        },
      });
    }
    return wrapped;
  };
  return {
    ...store,
    packages: record(store.packages, "packages", ["insert", "remove"]),
    bindings: record(store.bindings, "bindings", ["create", "update", "updateAll", "remove"]),
    installations: record(store.installations, "installations", ["commit"]),
  };
}

export async function packArchive(
  folder: string,
): Promise<{ kind: "archive"; bytes: AsyncIterable<Uint8Array>; name: string }> {
  const chunks: Uint8Array[] = [];
  const sink = new Writable({
    write(chunk: Uint8Array, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  await packFolder(folder, sink);
  return {
    kind: "archive",
    bytes: (async function* () {
      yield* chunks;
    })(),
    name: folder.split("/").at(-1)!,
  };
}

/** A package with two tools: `greet` has a configuration and a secret slot, `wave` has neither. */
export function kitFiles(
  version: string,
  more: { slots?: string[]; remark?: string } = {},
): Record<string, string> {
  const { slots = ["token"], remark = "" } = more;
  return {
    "vai-plugin.toml": `api_version = "vai.plugin.v1"
package_id = "acme/kit"
version = "${version}"
name = "Kit"
description = "${remark}"
[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["./bin/plugin"]
[[exports]]
id = "wave"
kind = "tool"
[exports.tool]
effect_class = "read_only"
[[exports]]
id = "greet"
kind = "tool"
config_schema = "config.json"
[exports.permissions]
secret_slots = ${JSON.stringify(slots)}
[exports.tool]
effect_class = "read_only"
`,
    "bin/plugin": "#!/bin/sh\n",
    "config.json": JSON.stringify({
      type: "object",
      properties: { team: { type: "string" } },
      additionalProperties: false,
    }),
  };
}

const SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

export function agentPluginFiles(version = "1.0.0"): Record<string, string> {
  return {
    "plugin.json": JSON.stringify({ $schema: SCHEMA, name: "office", version }),
    "mcp.json": JSON.stringify({
      mcpServers: { notes: { url: "https://notes.invalid/mcp" }, old: { type: "sse", url: "https://a/sse" } },
    }),
    "skills/write/SKILL.md": "---\nname: write\ndescription: Writes letters.\n---\nDear …\n",
  };
}

export function mcpJson(mcpServers: Record<string, object>) {
  const document = { mcpServers } as never;
  return { kind: "mcp_json", document, file: "mcp.json", secret_slots: [] as string[] } as const;
}
