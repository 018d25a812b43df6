/** A minimal manifest, variants of it with one error, and the errors that they cause. */
import { expect } from "vitest";
import { readManifest } from "../../src/index.ts";
import { MANIFEST } from "../support/plugin-folder.ts";

export const MINIMAL = MANIFEST.replace(/input_schema = .*/, 'effect_class = "read_only"');

export interface Refusal {
  code: string;
  message: string;
  details: { file: string; issues: { path: string; line: number; message: string }[] };
}

export function refusalOf(toml: string, file?: string): Refusal {
  try {
    readManifest(toml, file);
  } catch (error) {
    return error as Refusal;
  }
  throw new Error("the manifest was accepted");
}

/** The minimal manifest with one part replaced. */
export function replaceInMinimal(part: string, replacement: string): string {
  expect(MINIMAL).toContain(part);
  return MINIMAL.replace(part, replacement);
}
