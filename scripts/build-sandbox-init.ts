/**
 * Compiles sandbox-init once for all homes. A machine without a C compiler gets none, and the gateway then names the
 * fix when it needs one.
 */
import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { codeOf } from "@backplane/contract";
import { COMPILERS, findOrBuildInit, PREBUILT } from "../packages/runner/src/sandbox/init-program.ts";

try {
  mkdirSync(PREBUILT, { recursive: true });
  // Readable for every user of this installation, unlike the cache of a home.
  chmodSync(PREBUILT, 0o755);
  const { file } = await findOrBuildInit(PREBUILT, COMPILERS, PREBUILT);
  chmodSync(`${file}.sha256`, 0o444);
  // Programs of older sources. Tests keep private copies in the same folder while they run.
  for (const name of readdirSync(PREBUILT))
    if (name.startsWith("sandbox-init-") && !name.startsWith(basename(file)))
      rmSync(join(PREBUILT, name), { force: true });
} catch (error) {
  if (codeOf(error) !== "sandbox.unavailable") throw error;
}
