/**
 * Runs install scripts of npm packages in the sandbox: with the package tree as the only writable folder of the host,
 * without network and without secrets. npm itself runs there too, because it decides which scripts a package has and
 * how they are started.
 */
import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { InstallScripts } from "@backplane/ports";
import type { ConfineRequest } from "../sandbox/launch-confined.ts";
import { type ConfinedRunDeps, runConfined } from "./run-confined.ts";

export interface InstallScriptDeps extends ConfinedRunDeps {
  /** The Node that plugins run on, and that native modules are built for. */
  node: string;
}

const BIN = "/sandbox/bin";
const NPM = "/sandbox/npm";
const HEADERS = "/sandbox/node-headers";

/** The package tree is the home folder. The arguments are the names of packages. */
const COMMAND = [
  `PATH=${BIN}:$PATH`,
  "export PATH",
  'cd "$HOME"',
  `exec node ${NPM}/bin/npm-cli.js rebuild --offline --foreground-scripts --ignore-scripts=false --no-audit --no-fund --no-update-notifier --loglevel=error --cache="$TMPDIR/npm" -- "$@"`,
].join(" && ");

export function createInstallScripts(deps: InstallScriptDeps): InstallScripts {
  return {
    async run({ folder, packages, npm_cli, signal }) {
      await runConfined(deps, {
        file: "/bin/sh",
        args: ["-c", COMMAND, "sh", ...packages],
        ...(await findTools(deps.node, npm_cli)),
        folder,
        signal,
        subject: `Running the install scripts of ${packages.join(", ")}`,
        fix: "Install scripts have no network, so they cannot download prebuilt files. To compile them instead, install make, g++ and python3 on this machine.",
      });
    },
  };
}

/** Without a header folder, node-gyp would download the headers of Node, which are usually installed next to it. */
async function findTools(node: string, npm_cli: string): Promise<Pick<ConfineRequest, "env" | "binds">> {
  const program = await realpath(node);
  const headers = join(dirname(program), "..", "include");
  const readOnly = (source: string, target: string) => ({ source, target, writable: false });
  const has_headers = existsSync(join(headers, "node", "node.h"));
  return {
    env: has_headers ? { npm_config_nodedir: HEADERS } : {},
    binds: [
      readOnly(program, `${BIN}/node`),
      readOnly(dirname(dirname(await realpath(npm_cli))), NPM),
      ...(has_headers ? [readOnly(await realpath(headers), `${HEADERS}/include`)] : []),
    ],
  };
}
