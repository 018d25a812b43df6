/**
 * A secret that is used in the whole suite (secret.slots). Plugins that test support writes declare a slot for it,
 * unless the test sets their permissions; a gateway that binds such a plugin stores the secret, and every call receives
 * it. When a gateway is disposed of, everything that it left is searched for the value in all encodings: the whole home
 * (database with its log, blobs, files), its log, the output of its commands, and its HTTP responses. CANARY_FOLDER
 * has a report for each gateway, and scripts/canary.ts sums up the reports after the run.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { encodingsOf } from "../../../packages/contract/src/values/secret-encodings.ts";

/** A value whose raw, JSON, URL and base64 forms all differ. */
export const CANARY = 'canary/9f2c"71+Ω secret&of=the whole%suite';
export const CANARY_NAME = "canary";
export const CANARY_SLOT = "canary";
/** Beside the report of the run, whose user may not be allowed to write to reports/. */
export const CANARY_FOLDER = resolve("reports", process.env.BACKPLANE_REPORT ?? "tests", "../canary");

const NEEDLES = [...encodingsOf(CANARY)].map((encoding) => Buffer.from(encoding));

export interface SearchReport {
  /** The number of places that were searched, for example files of the home. */
  places: number;
  bytes: number;
  hits: string[];
}

export function searchText(name: string, text: string | Buffer, into: SearchReport): void {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  into.places++;
  into.bytes += bytes.length;
  for (const needle of NEEDLES) {
    const at = bytes.indexOf(needle);
    if (at < 0) continue;
    into.hits.push(`${name} at ${at}`);
    return;
  }
}

export function searchFolder(folder: string, into: SearchReport): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    try {
      searchText(relative(folder, file), readFileSync(file), into);
    } catch (error) {
      // The file was removed after it was listed; other errors must be reported.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

/** Stores the result for one gateway; `bindings` is the number of exports that were bound to the canary. */
export function storeReport(report: SearchReport, bindings: number): void {
  mkdirSync(CANARY_FOLDER, { recursive: true });
  const name = `${process.pid}-${Math.random().toString(36).slice(2)}.json`;
  writeFileSync(join(CANARY_FOLDER, name), JSON.stringify({ ...report, bindings }));
}
