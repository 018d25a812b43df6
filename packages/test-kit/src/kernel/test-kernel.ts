/** A whole kernel for tests, on a real SQLite store and a scripted runner, with the callers that tests use. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import {
  type Binding,
  type BindingCreate,
  createIdSource,
  type Invocation,
  type InvokeBody,
  type Json,
  type KernelPlugin,
  type Manifest,
} from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import {
  type Caller,
  type HostPolicy,
  hostPolicy,
  type Kernel,
  type KernelDeps,
  type Store,
} from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { onTestFinished } from "vitest";
import { copyEmptyStore } from "../empty-store.ts";
import { createInlineLoader } from "../inline-loader.ts";
import { createMemoryFolder } from "../memory-folder.ts";
import { shareSchemas } from "../shared-schemas.ts";
import { createTestLogger } from "../test-logger.ts";
import { TestClock } from "./clock.ts";
import { TestImporter } from "./manifests.ts";
import { ScriptedRunner } from "./scripted-runner.ts";

export const scope = { org_id: "org_local", project_id: "proj_default" };
export const admin: Caller = { actor: "admin", scope, role: "owner", scopes: ["admin"], admin: true };
export const user: Caller = { actor: "key_user", scope, role: "user", scopes: [], admin: false };
/** Like `user`, but for the whole org; only such a credential may change what all projects share. */
export const orgUser: Caller = { ...user, scope: { ...scope, project_id: null } };
export const guest: Caller = { ...user, actor: "key_guest", role: "guest" };
/** An owner of the whole org, who may manage plugins. */
export const owner: Caller = {
  ...user,
  actor: "key_owner",
  role: "owner",
  scope: { ...user.scope, project_id: null },
};

export interface TestKernel {
  kernel: Kernel;
  store: Store;
  runner: ScriptedRunner;
  importer: TestImporter;
  clock: TestClock;
  deps: KernelDeps;
  file: string;
  logged: { level: string; fields: object; message: string }[];
  /** Installs one package and binds its export, by default the first. */
  bind(content: Manifest, body?: Partial<BindingCreate>, schemas?: Record<string, Json>): Promise<Binding>;
  call(body: InvokeBody, caller?: Caller): Promise<Invocation>;
  /** Simulates kill -9: work in progress stops, data on disk stays. */
  crash(): Promise<void>;
}

export interface TestKernelOptions {
  host?: Partial<HostPolicy>;
  start?: boolean;
  runner?: ScriptedRunner;
  artifacts?: KernelDeps["artifacts"];
  plugins?: readonly KernelPlugin[];
  /** The importer of real archives, in place of the manifests that a test provides. */
  packages?: KernelDeps["importer"];
  marketplace?: KernelDeps["marketplace"];
}

export async function createTestKernel(
  options: TestKernelOptions & { file?: string } = {},
): Promise<TestKernel> {
  const file = options.file ?? join(createTemporaryFolder(), "store.db");
  if (options.file === undefined) await copyEmptyStore(file);
  const store = await openSqliteStore({ file, threaded: false });
  return await seedTestKernel(store, file, options);
}

export async function seedTestKernel(
  store: Store,
  file: string,
  options: TestKernelOptions = {},
): Promise<TestKernel> {
  const clock = new TestClock();
  const random = (bytes: Uint8Array) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>);
  const ids = createIdSource(() => clock.now(), random);
  const runner = options.runner ?? new ScriptedRunner();
  const importer = new TestImporter();
  const schemas = shareSchemas();
  const logged: TestKernel["logged"] = [];
  const deps: KernelDeps = {
    store,
    runner,
    importer: options.packages ?? importer,
    schemas,
    vault: createSecretVault([{ id: "k1", key: new Uint8Array(32).fill(7) }]),
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy({ retry: { max_attempts: 3, base_ms: 5 }, ...options.host }),
    gateway: { base_url: () => "http://127.0.0.1:7420" },
    log: createTestLogger((level, message, fields) => logged.push({ level, fields, message })),
    ...(options.artifacts === undefined ? {} : { artifacts: options.artifacts }),
    ...(options.marketplace === undefined ? {} : { marketplace: options.marketplace }),
    ...(options.plugins === undefined
      ? {}
      : { plugins: createInlineLoader(options.plugins, createTemporaryFolder) }),
  };
  const kernel = createKernel(deps);
  if (options.start !== false) await kernel.start();
  let crashed = false;
  onTestFinished(async () => {
    if (!crashed) {
      await kernel.stop(0);
      clock.halt();
      await store.close();
    }
    await schemas.close();
  });
  return {
    kernel,
    store,
    runner,
    importer,
    clock,
    deps,
    file,
    logged,
    async bind(content, body = {}, package_schemas = {}) {
      await kernel.packages.install(admin, importer.add(content, package_schemas));
      const { package_id, version, exports } = content;
      const binding = { package_id, package_version: version, export_id: exports[0]?.id ?? "*", ...body };
      return await kernel.bindings.create(admin, binding);
    },
    async call(body, caller = user) {
      return await (await kernel.invocations.invoke(caller, body)).settled;
    },
    async crash() {
      crashed = true;
      runner.halt();
      clock.halt();
      await store.close();
    },
  };
}

function createTemporaryFolder(): string {
  const folder = createMemoryFolder("backplane-kernel-");
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Polls until the condition is true; the timeout of the test is the limit. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 2));
}
