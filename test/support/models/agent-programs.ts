/** The published programs of coding agents, which tests host as harnesses. They are too large for test/peers. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const PROGRAMS = { codex: "@openai/codex@0.166.0", opencode: "opencode-ai@1.18.33" } as const;
const FOLDER = resolve("node_modules/.cache/backplane-agents");

/** Returns the folder in which npm installed the program. A later run finds it there. */
export async function installAgent(name: keyof typeof PROGRAMS): Promise<string> {
  const spec = PROGRAMS[name];
  const folder = join(FOLDER, spec.replaceAll(/\W+/g, "-"));
  if (existsSync(join(folder, "package-lock.json"))) return folder;
  mkdirSync(folder, { recursive: true });
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  try {
    await promisify(execFile)("npm", ["install", "--prefix", folder, ...flags, spec]);
  } catch (error) {
    throw new Error(
      `npm could not install ${spec} (up to 440 MB). This test needs the npm registry or a full npm cache: ${String(error)}`,
    );
  }
  return folder;
}
