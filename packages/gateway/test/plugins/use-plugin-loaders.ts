/** Plugin loaders with and without the sandbox. Each test file has its own home. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KernelPlugin } from "@backplane/contract";
import { createModuleHost, type ModuleHostOptions } from "@backplane/runner";
import { type KernelTestOptions, testKernelPlugin } from "@backplane/sdk/testing";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterAll, beforeAll, expect } from "vitest";
import { createConfinedLoader } from "../../../../test/support/kernel-plugins/confined-loader.ts";
import { withBundledHost } from "../../../../test/support/kernel-plugins/plugin-host.ts";
import { systemClock } from "../../src/host/clock.ts";
import { createPluginLoader } from "../../src/plugins/plugin-loader.ts";

/** The folder of plugin fixtures. */
export const FIXTURES = join(import.meta.dirname, "../fixtures/plugins");
const FIXTURE_NAMES = ["shop", "greeter", "emitter", "fails-on-load", "sleeper"];
let home: string;
let loaders: { plain: Loader; confined: Loader; entries: Entries };
export const NO_NETWORK = { allowed_domains: [] };

type Loader = ReturnType<typeof createPluginLoader>;
type Entries = Awaited<ReturnType<Loader["discover"]>>["entries"];

/** Forwards to the loader of the current test file, which is created only after its tests are defined. */
const forwardTo = (name: "plain" | "confined"): Loader =>
  new Proxy({} as Loader, { get: (_, key) => Reflect.get(loaders[name], key) });
export const plain = forwardTo("plain");
export const confined = forwardTo("confined");

/** A test file calls this once. */
export function usePluginLoaders(): void {
  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), "backplane-contract-"));
    const options = {
      home,
      clock: systemClock(),
      log: createTestLogger(),
      bundled_roots: FIXTURE_NAMES.map((name) => join(FIXTURES, name)),
      timeouts: { on_load_ms: 1_500, stop_ms: 500 },
    };
    const moduleHost = (host: ModuleHostOptions) => createModuleHost(withBundledHost(host));
    const loader = createPluginLoader({ ...options, moduleHost });
    const { entries } = await loader.discover();
    loaders = { plain: loader, confined: createConfinedLoader(options), entries };
  });
  afterAll(async () => {
    await loaders.plain.close();
    await loaders.confined.close();
    rmSync(home, { recursive: true });
  });
}

export const findEntry = (name: string) => loaders.entries.find((entry) => entry.name === name)!;
export const loadIntoTestKernel = (plugin: KernelPlugin, options: KernelTestOptions = {}) =>
  testKernelPlugin(plugin, { state_dir: home, ...options });
export const catchRejection = async (work: Promise<unknown>): Promise<Error & { code?: string }> =>
  await work.then(
    () => expect.unreachable("the call should have thrown"),
    (error) => error as Error,
  );

/** A loaded plugin must behave the same with all of these loaders. */
export const LOADING_MODES = [
  ["inline", "inline", plain],
  ["hosted", "hosted", confined],
  ["hosted with the sandbox turned off", "hosted", plain],
] as const;

/** A sandboxed plugin runs as another user, so its folder must be accessible to others. */
export function createSharedFolder(): string {
  const dir = mkdtempSync(join(home, "odd-"));
  chmodSync(dir, 0o755);
  return dir;
}

export function pluginText(fields: Record<string, unknown>): string {
  const values = { name: "odd", version: "1.0.0", category: "tool", ...fields };
  const subscriptions = "subscriptions" in fields ? "" : "subscriptions: () => [],";
  return `export const plugin = { ...${JSON.stringify(values)}, ${subscriptions} };`;
}
