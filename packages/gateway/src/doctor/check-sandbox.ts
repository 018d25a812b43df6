/** `doctor` on the sandbox: tried out for real, on this machine and by this user. Leaves nothing behind. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PLUGIN_PATH, type SandboxStatus, sandboxStatus } from "@backplane/runner";
import type { GatewayConfig } from "../config/config.ts";
import { given, sandboxFolder } from "../config/sandbox.ts";
import { createLogger } from "../host/log.ts";
import type { Check } from "./check.ts";

const SWITCHED_OFF = "isolated exports are refused, worker exports run with the gateway's own rights";
const MISSING = "isolated and worker exports are refused";

export async function checkSandbox(config: GatewayConfig): Promise<Check> {
  if (!config.sandbox.enabled) {
    return {
      name: "sandbox",
      status: "degraded",
      message: `switched off: ${SWITCHED_OFF}`,
      fix: `set enabled = true under [sandbox] in ${join(config.home, "backplane.toml")}, and unset BACKPLANE_SANDBOX`,
    };
  }
  return describe(await tryOut(config));
}

export function describe({ available, reason, fix }: SandboxStatus): Check {
  const message = available ? `isolated and worker exports run confined: ${reason}` : `${MISSING}: ${reason}`;
  const status = available && fix === null ? "ok" : "degraded";
  return { name: "sandbox", status, message, ...(fix === null ? {} : { fix }) };
}

/** A home that is not there yet is not made by looking. */
async function tryOut({ home, sandbox }: GatewayConfig): Promise<SandboxStatus> {
  const passing = existsSync(home) ? null : await mkdtemp(join(tmpdir(), "backplane-doctor-"));
  try {
    return await sandboxStatus({
      cache_dir: passing ?? sandboxFolder(home),
      node: process.execPath,
      path: PLUGIN_PATH,
      limits: given(sandbox.limits),
      log: createLogger("silent"),
    });
  } finally {
    if (passing !== null) await rm(passing, { recursive: true, force: true });
  }
}
