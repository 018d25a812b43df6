/**
 * Checks the sandbox by starting one, on this machine and as this user. Leaves no files behind, except an empty sandbox
 * folder in an existing home.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { definedFields } from "@backplane/contract";
import { PLUGIN_PATH, type SandboxStatus, readSandboxStatus } from "@backplane/runner";
import type { GatewayConfig } from "../config/config.ts";
import { sandboxFolder } from "../config/sandbox.ts";
import { createLogger } from "../host/log.ts";
import type { DoctorCheck } from "./check.ts";

const TURNED_OFF = "isolated exports are refused, and worker exports run with the permissions of the gateway";
const MISSING = "isolated and worker exports are refused";

export async function checkSandbox(config: GatewayConfig): Promise<DoctorCheck> {
  if (!config.sandbox.enabled) {
    return {
      name: "sandbox",
      status: "degraded",
      message: `turned off: ${TURNED_OFF}`,
      fix: `set enabled = true under [sandbox] in ${join(config.home, "backplane.toml")}, and unset BACKPLANE_SANDBOX`,
    };
  }
  return describeSandbox(await probeSandbox(config));
}

export function describeSandbox({ available, reason, fix }: SandboxStatus): DoctorCheck {
  const message = available ? `isolated and worker exports run confined: ${reason}` : `${MISSING}: ${reason}`;
  const status = available && fix === null ? "ok" : "degraded";
  return { name: "sandbox", status, message, ...(fix === null ? {} : { fix }) };
}

/** Does not create a missing home. */
async function probeSandbox({ home, sandbox }: GatewayConfig): Promise<SandboxStatus> {
  const temporary = existsSync(home) ? null : await mkdtemp(join(tmpdir(), "backplane-doctor-"));
  try {
    return await readSandboxStatus({
      cache_dir: temporary ?? sandboxFolder(home),
      node: process.execPath,
      path: PLUGIN_PATH,
      limits: definedFields(sandbox.limits),
      log: createLogger("silent"),
    });
  } finally {
    if (temporary !== null) await rm(temporary, { recursive: true, force: true });
  }
}
