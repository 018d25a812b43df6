/**
 * Disables one defence at a time, in a temporary copy, and runs the tests that should fail: a surviving
 * mutant is a defence that no test guards. Takes minutes; `npm run mutate [-- WORD…]` runs the mutants whose
 * name contains a word. Some defences are excluded on purpose: those that contain a fork bomb, a memory bomb
 * or a packet, and the one that keeps PID 1's kill inside its namespace. Without these the tests would attack
 * this machine; test/hostile demonstrates them with weakened sandboxes.
 */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MUTANTS } from "./defences/all.ts";
import type { Mutant } from "./defences/mutant.ts";

function main(words: string[]): number {
  const wanted = MUTANTS.filter(
    ({ defence }) => words.length === 0 || words.some((word) => defence.includes(word)),
  );
  const copy = copyOfProject();
  let survived = 0;
  try {
    for (const mutant of wanted) {
      const verdict = judge(copy, mutant);
      if (verdict !== "killed") survived++;
      console.log(`${verdict.padEnd(9)} ${mutant.defence} (${mutant.tests.join(", ")})`);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  console.log(`${wanted.length - survived} of ${wanted.length} mutants killed`);
  return survived === 0 && wanted.length > 0 ? 0 : 1;
}

function judge(copy: string, { file, from, to, tests }: Mutant): "killed" | "SURVIVED" | "STALE" {
  const path = join(copy, file);
  const source = readFileSync(path, "utf8");
  // The string must occur exactly once, or the disabled defence would be ambiguous.
  if (source.split(from).length !== 2) return "STALE";
  writeFileSync(
    path,
    source.replace(from, () => to),
  );
  try {
    const args = ["run", "--project", "fast", "--bail", "1", ...tests];
    const ran = spawnSync(join(copy, "node_modules/.bin/vitest"), args, {
      cwd: copy,
      env: { ...process.env, BACKPLANE_REPORT: "mutant" },
      encoding: "utf8",
      timeout: 300_000,
    });
    return ran.status !== 0 && /Tests .*failed/.test(ran.stdout) ? "killed" : "SURVIVED";
  } finally {
    writeFileSync(path, source);
  }
}

/** The copy has its own node_modules, so that its modules resolve each other and not the originals. */
function copyOfProject(): string {
  const copy = mkdtempSync(join(tmpdir(), "backplane-mutants-"));
  const skipped = /(?:^|\/)(?:node_modules|\.git|reports|sandbox-init-[0-9a-f]+[^/]*)$/;
  cpSync(".", copy, { recursive: true, filter: (path) => !skipped.test(path) });
  const modules = join(copy, "node_modules");
  mkdirSync(join(modules, "@backplane"), { recursive: true });
  for (const name of readdirSync("node_modules")) {
    if (name !== "@backplane") symlinkSync(resolve("node_modules", name), join(modules, name));
  }
  for (const name of readdirSync("node_modules/@backplane")) {
    const module = name.replace(/^plugin-/, "");
    symlinkSync(
      join(copy, name === module ? "packages" : "plugins", module),
      join(modules, "@backplane", name),
    );
  }
  return copy;
}

process.exitCode = main(process.argv.slice(2));
