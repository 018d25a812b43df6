/** A plugin loader like the gateway's, with hosted plugins in a real sandbox, for tests of several modules. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunner, type RunnerOptions } from "@backplane/runner";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { systemClock } from "../../../packages/gateway/src/host/clock.ts";
import {
  type ClosablePluginLoader,
  createPluginLoader,
  type PluginLoaderOptions,
} from "../../../packages/gateway/src/plugins/plugin-loader.ts";
import { filesAt } from "../../../packages/runner/test/support/files-at.ts";
import { withBundledHost } from "./plugin-host.ts";

export function createConfinedLoader(
  options: Pick<PluginLoaderOptions, "home"> & Partial<PluginLoaderOptions>,
  boundary: Pick<RunnerOptions, "egress" | "sandbox"> = {},
): ClosablePluginLoader {
  const scratch_root = mkdtempSync(join(tmpdir(), "backplane-scratch-"));
  const clock = systemClock();
  const log = options.log ?? createTestLogger();
  const runner = createRunner({
    files: filesAt(scratch_root),
    clock,
    log,
    scratch_root,
    host: { name: "backplane", version: "0" },
    ...boundary,
    sandbox: { cache_dir: join(scratch_root, "sandbox"), ...boundary.sandbox },
  });
  const moduleHost: PluginLoaderOptions["moduleHost"] = (host) => runner.moduleHost(withBundledHost(host));
  const loader = createPluginLoader({ clock, log, moduleHost, ...options });
  return {
    ...loader,
    async close() {
      await loader.close();
      await runner.close(2_000);
      rmSync(scratch_root, { recursive: true, force: true });
    },
  };
}
