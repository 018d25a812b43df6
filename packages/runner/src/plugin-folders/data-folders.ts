/**
 * Folders that last: one for each binding and project whose dialect keeps data, 0700, made when its first process
 * starts and never removed here. What lies in it is the plugin's own.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { ProcessOrder } from "../ports/dialect.ts";

const PART = /^[A-Za-z0-9_-]+$/;
/** A binding of the whole org, called without a project. */
const NO_PROJECT = "org";

/** Who shares one folder, and therefore never runs beside each other. */
export function dataKey({ binding_id, context }: ProcessOrder): string {
  return `${binding_id}/${context.project_id ?? NO_PROJECT}`;
}

export async function makeDataDir(root: string | null, order: ProcessOrder): Promise<string> {
  if (root === null) {
    throw new BackplaneError("launch_failed", "This runner has no place for data of plugins.");
  }
  const parts = dataKey(order).split("/");
  if (!parts.every((part) => PART.test(part))) {
    throw new BackplaneError("internal", `${parts.join("/")} cannot name a data folder`);
  }
  const folder = join(root, ...parts);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}
