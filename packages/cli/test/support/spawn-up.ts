/** Runs `up` of the built CLI in a separate process with its own home, and CLI commands against that gateway. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runProgram } from "../../src/index.ts";
import { captureIo } from "./capture-io.ts";
import { captureOutput } from "./capture-output.ts";
import { waitForOutput } from "./wait-for-output.ts";

export const MAIN = fileURLToPath(new URL("../../dist/main.js", import.meta.url));

export async function spawnUp(...flags: string[]) {
  const home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  const env = {
    HOME: home,
    PATH: process.env.PATH ?? "",
    BACKPLANE_HOME: home,
    BACKPLANE_LOG_LEVEL: "error",
  };
  const argv = [MAIN, "up", "--port", "0", ...flags];
  const child = spawn(process.execPath, argv, { env, stdio: ["ignore", "pipe", "pipe"] });
  const { out, err, closed } = captureOutput(child);
  const begin = (...args: string[]) => {
    const io = captureIo({ env });
    return { io, ended: runProgram(args, io).then((exit) => ({ exit, out: io.out(), err: io.err() })) };
  };
  await Promise.race([waitForOutput(out, /\n/), closed]);
  return {
    home,
    env,
    out,
    err,
    closed,
    begin,
    /** The JSON document of a command and its exit code. */
    async json<T>(...args: string[]): Promise<T & { exit: number }> {
      const { exit, out: document } = await begin(...args, "--json").ended;
      return { exit, ...(JSON.parse(document) as T) };
    },
    async dispose() {
      if (child.exitCode === null) child.kill("SIGKILL");
      await closed;
      rmSync(home, { recursive: true, force: true });
    },
  };
}
