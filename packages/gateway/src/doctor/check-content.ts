/** Checks the content store: compares every installed file with its digest. */
import { join } from "node:path";
import { type InspectedTree, inspectContent } from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import type { DoctorCheck } from "./check.ts";

export interface ContentOptions {
  /** After this time the check stops, and reports how many packages it has compared. */
  seconds: number;
  /** The display name of the package with a digest; null if it is unknown. */
  nameOf(digest: string): string | null;
  /** Called about once a second. */
  progress(text: string): void;
}

const NAME = "content store";
const MAX_ROWS = 20;
const PROGRESS_MS = 1_000;

export async function checkContent(config: GatewayConfig, options: ContentOptions): Promise<DoctorCheck[]> {
  const deadline = performance.now() + options.seconds * 1_000;
  const damaged: InspectedTree[] = [];
  let compared = 0;
  let count = 0;
  let last_progress = performance.now();
  for await (const tree of inspectContent(join(config.home, "blobs"))) {
    ({ count, index: compared } = tree);
    if (tree.difference !== null) damaged.push(tree);
    if (performance.now() > deadline) break;
    if (performance.now() - last_progress < PROGRESS_MS) continue;
    last_progress = performance.now();
    options.progress(`Compared ${compared} of ${count} installed packages.`);
  }
  const rows = damaged.slice(0, MAX_ROWS).map((tree) => describeDamage(tree, options.nameOf(tree.digest)));
  if (damaged.length > rows.length) {
    const more = damaged.length - rows.length;
    rows.push({
      name: NAME,
      status: "failed",
      message: `${more} more packages are damaged`,
      fix: INSTALL_COMMAND,
    });
  }
  if (compared < count) {
    const message = `${compared} of ${count} packages compared in ${options.seconds} s`;
    rows.push({ name: NAME, status: "degraded", message, fix: "backplane doctor --timeout 600" });
  } else if (rows.length === 0) {
    rows.push({
      name: NAME,
      status: "ok",
      message: `all installed packages match their digests (${count})`,
    });
  }
  return rows;
}

const INSTALL_COMMAND = "backplane plugin install SOURCE --no-bind";

function describeDamage({ difference, digest }: InspectedTree, name: string | null): DoctorCheck {
  const { actual, expected, file, what } = difference!;
  const subject = name === null ? `the package ${digest}` : `${name} (${digest})`;
  const detail =
    expected === undefined || actual === undefined ? "" : `: expected ${expected}, found ${actual}`;
  const change = what === "extra" ? "was added" : what === "missing" ? "is missing" : "was changed";
  return {
    name: NAME,
    status: "failed",
    message: `${subject} is damaged and will not be started: ${JSON.stringify(file)} ${change}${detail}`,
    fix: `${INSTALL_COMMAND} (SOURCE is the folder, archive or npm:NAME that ${name ?? "it"} was installed from)`,
  };
}
