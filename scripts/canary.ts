/**
 * Runs after the tests: sums up the suite's searches for the canary, a secret that every test gateway stores
 * (test/support/gateway/canary.ts), searches the test reports and the files that a killed test left in the temporary folder,
 * and fails if any copy of the canary is found or if no binding received it. The check covers the gateways that tests
 * start as processes and the plugins that the test support writes for them; the tests of single modules have their own
 * canaries.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CANARY_FOLDER,
  type SearchReport,
  searchFolder,
  searchText,
} from "../test/support/gateway/canary.ts";

const LEFTOVER_FOLDER = /^backplane-(?:e2e|cli|plugin|runner)-/;

function main(): number {
  const sum: SearchReport = { places: 0, bytes: 0, hits: [] };
  let gateways = 0;
  let bindings = 0;
  for (const name of existsSync(CANARY_FOLDER) ? readdirSync(CANARY_FOLDER) : []) {
    const report = JSON.parse(readFileSync(join(CANARY_FOLDER, name), "utf8")) as SearchReport & {
      bindings: number;
    };
    gateways++;
    bindings += report.bindings;
    sum.places += report.places;
    sum.bytes += report.bytes;
    sum.hits.push(...report.hits);
  }
  for (const name of readdirSync("reports").filter((file) => file.endsWith(".json"))) {
    searchText(`reports/${name}`, readFileSync(join("reports", name)), sum);
  }
  for (const name of readdirSync(tmpdir()).filter((folder) => LEFTOVER_FOLDER.test(folder))) {
    searchFolder(join(tmpdir(), name), sum);
  }
  const summary = `${sum.places} places of ${gateways} gateways with ${bindings} bindings that received it, ${(sum.bytes / 2 ** 20).toFixed(1)} MiB`;
  console.log(`canary: found ${sum.hits.length} copies in ${summary}`);
  for (const hit of sum.hits) console.error(`  ${hit}`);
  if (bindings > 0) return sum.hits.length === 0 ? 0 : 1;
  console.error("No binding of the suite received the canary, so its absence proves nothing.");
  return 1;
}

process.exitCode = main();
