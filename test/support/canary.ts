/**
 * A secret that goes through the whole suite (secret.slots). Every test gateway stores it, every plugin that the helpers
 * write declares a slot for it, and every call of one carries it. When a gateway is disposed of, everything that it left
 * is searched for the value in all its spellings: the whole home (database with its log, blobs, files), what it printed,
 * what its commands printed, and what it answered over HTTP. What was searched is noted in reports/canary, where
 * scripts/canary.ts adds it up after the run.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { spellingsOf } from "../../packages/contract/src/values/secret-spellings.ts";

/** Spelled differently raw, in JSON, in a URL and in base64. */
export const CANARY = 'canary/9f2c"71+Ω secret&of=the whole%suite';
export const CANARY_NAME = "canary";
export const CANARY_SLOT = "canary";
export const CANARY_FOLDER = resolve("reports/canary");

const NEEDLES = [...spellingsOf(CANARY)].map((spelling) => Buffer.from(spelling));

export interface Searched {
  /** What was looked through, e.g. a file of the home. */
  places: number;
  bytes: number;
  hits: string[];
}

export function searchText(name: string, text: string | Buffer, into: Searched): void {
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

export function searchFolder(folder: string, into: Searched): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    try {
      searchText(relative(folder, file), readFileSync(file), into);
    } catch (error) {
      // Gone between the list and the look; anything else must be known.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

/** One gateway's account; `bindings` says how many exports were bound to the canary there. */
export function noteSearch(searched: Searched, bindings: number): void {
  mkdirSync(CANARY_FOLDER, { recursive: true });
  const name = `${process.pid}-${Math.random().toString(36).slice(2)}.json`;
  writeFileSync(join(CANARY_FOLDER, name), JSON.stringify({ ...searched, bindings }));
}
