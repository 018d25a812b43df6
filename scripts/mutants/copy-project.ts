/** Copies the project for the mutation tests, so that a killed run does not leave a mutant in the sources. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The copy has its own node_modules, so that its modules resolve each other and not the originals. */
export function copyProject(): string {
  const copy = mkdtempSync(join(tmpdir(), "backplane-mutants-"));
  const skipped = /(?:^|\/)(?:node_modules|\.git|reports)$/;
  cpSync(".", copy, { recursive: true, filter: (path) => !skipped.test(path) });
  const modules = join(copy, "node_modules");
  mkdirSync(join(modules, "@backplane"), { recursive: true });
  for (const name of readdirSync("node_modules")) {
    if (name !== "@backplane" && name !== ".vitest-cache") {
      symlinkSync(resolve("node_modules", name), join(modules, name));
    }
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
