/** `up` as a process of its own, on a home of its own, and the command run against it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../../src/index.ts";
import { captureIo } from "./capture-io.ts";
import { said } from "./said.ts";

export const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

export async function spawnUp(...flags: string[]) {
  const home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  const env = {
    HOME: home,
    PATH: process.env.PATH ?? "",
    BACKPLANE_HOME: home,
    BACKPLANE_LOG_LEVEL: "error",
  };
  const argv = ["--conditions=backplane-source", MAIN, "up", "--port", "0", ...flags];
  const child = spawn(process.execPath, argv, { env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk.toString();
  });
  const closed = once(child, "close").then(([code]) => code as number);
  const begin = (...words: string[]) => {
    const io = captureIo({ env });
    return { io, ended: run(words, io).then((exit) => ({ exit, out: io.out(), err: io.err() })) };
  };
  await Promise.race([said(() => out, /\n/), closed]);
  return {
    home,
    env,
    out: () => out,
    err: () => err,
    closed,
    begin,
    /** The one JSON document of a command, with its exit code. */
    async json<T>(...words: string[]): Promise<T & { exit: number }> {
      const { exit, out: printed } = await begin(...words, "--json").ended;
      return { exit, ...(JSON.parse(printed) as T) };
    },
    async dispose() {
      if (child.exitCode === null) child.kill("SIGKILL");
      await closed;
      rmSync(home, { recursive: true, force: true });
    },
  };
}
