/**
 * Builds the sandbox-init programs that are shipped with the runner.
 *
 *   node scripts/build-sandbox-init.ts           builds them for all architectures, with the exact toolchain
 *   node scripts/build-sandbox-init.ts --check   builds them again in a temporary folder; fails if a byte differs
 *   node scripts/build-sandbox-init.ts --local   builds the program for this machine with any compiler, to try a change
 */
import { buildLocally, buildShipped, findDifferencesFromShipped, PREBUILT } from "./sandbox-init/manifest.ts";

const [mode] = process.argv.slice(2);
if (mode === "--local") buildLocally(PREBUILT);
else if (mode === "--check") {
  const differing = findDifferencesFromShipped();
  for (const line of differing) console.error(line);
  process.exitCode = differing.length === 0 ? 0 : 1;
} else {
  const { programs } = buildShipped(PREBUILT);
  for (const [name, { sha256 }] of Object.entries(programs)) console.log(`${sha256}  ${name}`);
}
