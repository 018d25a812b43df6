/**
 * Runs install scripts of npm packages in the sandbox: with the tree as the only writable folder, without network and
 * without secrets. npm itself runs there too, because it decides which scripts a package has and how they are started.
 */
import { existsSync } from "node:fs";
import { chmod, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BackplaneError, type Grant } from "@backplane/contract";
import type { InstallScripts } from "@backplane/ports";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import { StderrRing } from "../processes/stderr-ring.ts";
import { describeStderr } from "../programs/describe-stderr.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import type { ConfinedProcess, ConfineRequest } from "../sandbox/launch-confined.ts";
import type { Deadlines } from "../time/deadlines.ts";

export interface InstallScriptParts {
  confinement: Confinement;
  deadlines: Deadlines;
  scratch: ScratchFolders;
  /** The Node that plugins run on, and that native modules are built for. */
  node: string;
}

const LIMIT_MS = 600_000;
const OUTPUT_BYTES = 64 * 1024;
const BIN = "/sandbox/bin";
const NPM = "/sandbox/npm";
const HEADERS = "/sandbox/node-headers";

const NO_RIGHTS: Grant = {
  class: "isolated",
  network: "none",
  allowed_domains: [],
  filesystem: "scratch",
  mounts: [],
  gateway_api_scopes: [],
  secret_slots: [],
  capabilities: [],
  tools: null,
};

/** The tree is the home folder. The arguments are the names of packages. */
const COMMAND = [
  `PATH=${BIN}:$PATH`,
  "export PATH",
  'cd "$HOME"',
  `exec node ${NPM}/bin/npm-cli.js rebuild --offline --foreground-scripts --ignore-scripts=false --no-audit --no-fund --no-update-notifier --loglevel=error --cache="$TMPDIR/npm" -- "$@"`,
].join(" && ");

export function createInstallScripts(parts: InstallScriptParts): InstallScripts {
  const { confinement, deadlines, scratch } = parts;
  return {
    async run({ folder, packages, npm_cli, signal }) {
      await confinement.opening;
      const { sandbox, refusal } = confinement.of({ class: "isolated", grant: {} });
      if (sandbox === null) throw refusal!;
      const empty = await scratch.makeForProcess();
      try {
        // The sandbox's user must be able to enter it.
        await chmod(empty, 0o755);
        const confined = await sandbox.launch({
          grant: NO_RIGHTS,
          // Without a limit of CPU time, because a compiler may need a lot of it.
          lifetime: "pooled",
          folder: await realpath(empty),
          program: { kind: "system", file: "/bin/sh", args: ["-c", COMMAND, "sh", ...packages] },
          ...(await toolsFor(parts.node, npm_cli)),
          state: folder,
        });
        await waitForExit(confined, deadlines, packages, signal);
      } finally {
        await scratch.remove(empty);
      }
    },
  };
}

/** node-gyp would download the headers of Node, which are usually beside it. */
async function toolsFor(node: string, npm_cli: string): Promise<Pick<ConfineRequest, "env" | "binds">> {
  const program = await realpath(node);
  const headers = join(dirname(program), "..", "include");
  const shown = (source: string, target: string) => ({ source, target, writable: false });
  const found = existsSync(join(headers, "node", "node.h"));
  return {
    env: found ? { npm_config_nodedir: HEADERS } : {},
    binds: [
      shown(program, `${BIN}/node`),
      shown(dirname(dirname(await realpath(npm_cli))), NPM),
      ...(found ? [shown(await realpath(headers), `${HEADERS}/include`)] : []),
    ],
  };
}

async function waitForExit(
  confined: ConfinedProcess,
  deadlines: Deadlines,
  packages: readonly string[],
  stop: AbortSignal,
): Promise<void> {
  const output = new StderrRing(OUTPUT_BYTES);
  const { child } = confined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => output.append(chunk));
  }
  child.stdin.on("error", () => {});
  child.stdin.end();
  const late = deadlines.set(LIMIT_MS, () => confined.kill("timeout"));
  const kill = () => confined.kill();
  stop.addEventListener("abort", kill);
  if (stop.aborted) kill();
  const { code, signal } = await confined.exitCause;
  deadlines.clear(late);
  stop.removeEventListener("abort", kill);
  if (stop.aborted) throw new BackplaneError("request.cancelled");
  if (code === 0) return;
  const outcome = signal === null ? `exit code ${code ?? "unknown"}` : signal;
  const output_text = describeStderr(output.since(0, OUTPUT_BYTES).toString("utf8")) ?? "They wrote nothing.";
  throw new BackplaneError(
    "plugin.install_failed",
    `The install scripts of ${packages.join(", ")} failed in the sandbox (${outcome}). ${output_text}`,
    {
      fix: "They have no network: a prebuilt file cannot be downloaded. To compile it, install make, g++ and python3 on this machine.",
    },
  );
}
