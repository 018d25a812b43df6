/**
 * Persistent data folders: one per binding and project for dialects that keep data. Mode 0700, created with the
 * first process and never removed by the runner.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";

const PART = /^[A-Za-z0-9_-]+$/;
/** For a call without a project on a binding of the whole org. */
const NO_PROJECT = "org";

/** Identifies a data folder. Processes with the same key never run at the same time. */
export function dataKey({ binding_id, context }: ProcessRequest): string {
  return `${binding_id}/${context.project_id ?? NO_PROJECT}`;
}

export async function makeDataDir(root: string | null, request: ProcessRequest): Promise<string> {
  if (root === null) {
    throw new BackplaneError("launch_failed", "This runner has no data folder for plugins.");
  }
  const parts = dataKey(request).split("/");
  if (!parts.every((part) => PART.test(part))) {
    throw new BackplaneError("internal", `${parts.join("/")} is not a valid name for a data folder`);
  }
  const folder = join(root, ...parts);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}
