import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { waitForOutput } from "../support/wait-for-output.ts";

/** Starts a process that prints each signal that it receives and exits on SIGTERM. */
function startSignalListener(same_key_press_ms: number) {
  const source = `
    import { processIo } from ${JSON.stringify(new URL("../../src/terminal/io.ts", import.meta.url).href)};
    const io = processIo(import.meta.url.startsWith("file:") ? import.meta.url : "file:///main.js", ${same_key_press_ms});
    process.on("SIGINT", () => console.log("raw"));
    io.onSignal((signal) => { console.log(signal); if (signal === "SIGTERM") process.exit(0); });
    console.log("ready");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  return { child, out: () => out };
}

async function pressTwice(same_key_press_ms: number): Promise<string[]> {
  const { child, out } = startSignalListener(same_key_press_ms);
  await waitForOutput(out, /ready\n/);
  child.kill("SIGINT");
  await waitForOutput(out, /raw/);
  child.kill("SIGINT");
  await waitForOutput(out, /raw[\s\S]*raw/);
  child.kill("SIGTERM");
  await once(child, "close");
  return out()
    .split("\n")
    .filter((line) => line.startsWith("SIG"));
}

describe("signals", () => {
  test("counts a Ctrl-C only once if npm or the launcher also forwards it", async () => {
    expect(await pressTwice(600_000)).toEqual(["SIGINT", "SIGTERM"]);
  });

  test("counts a later Ctrl-C as a second one", async () => {
    expect(await pressTwice(0)).toEqual(["SIGINT", "SIGINT", "SIGTERM"]);
  });
});
