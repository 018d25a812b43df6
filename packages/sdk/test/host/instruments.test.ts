import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { INSTRUMENT_API_SOURCE } from "@backplane/contract";
import { InstrumentHost, stdioTransport } from "@backplane/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { buildInstrumentHost } from "../../../../scripts/build-instrument-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createExternalContext } from "../../src/host/instruments/external-context.ts";
import { HEFTY_VERSION, InstrumentResult } from "../../src/instruments/index.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const base = mkdtempSync(join(tmpdir(), "backplane-instrument-host-"));
let host = "";
let data_dir = "";
let child: ChildProcessWithoutNullStreams | null = null;
let stderr = "";

beforeAll(async () => {
  host = await buildInstrumentHost(join(base, "instrument-host.mjs"));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));
beforeEach(() => {
  data_dir = mkdtempSync(join(tmpdir(), "backplane-instrument-"));
});
afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(data_dir, { recursive: true, force: true });
});

function startHost(reference: string): InstrumentHost {
  stderr = "";
  child = spawn(process.execPath, [host, reference], {
    cwd: path("../fixtures"),
    stdio: "pipe",
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return new InstrumentHost({ transport: stdioTransport(child.stdout, child.stdin), onFailure: () => {} });
}
const init = () => ({
  pluginId: "greeter",
  dataDir: data_dir,
  config: { greeting: "Ahoj" },
  heftyVersion: "0.22.0",
});
const call = (instrument: string, params: Record<string, string>) => ({
  instrument,
  params,
  activityId: "act",
  sessionId: "sess",
  invocationId: "inv",
});

verifies("instr.external-host", "serves the protocol for a provider module until shutdown", async () => {
  const host = startHost("./greeter-provider.ts#GreeterProvider");
  await host.initialize(init(), 20_000);
  const { instruments } = await host.listInstruments(20_000);
  expect(instruments.map(({ name }) => name)).toEqual(["greet", "think"]);
  expect(await host.invoke(call("greet", { name: "Ada" }))).toEqual({
    status: "Success",
    data: { stdout: "Ahoj, Ada! (1)", stderr: "" },
  });
  expect(readFileSync(join(data_dir, "count"), "utf8")).toBe("1");
  expect(stderr).toContain('info [greeter] initialized {"with":["greeting"]}');
  expect(stderr).toContain("this must not reach the protocol");
  const exited = new Promise((resolve) => child?.once("exit", resolve));
  await host.shutdown();
  expect(await exited).toBe(0);
  expect(existsSync(join(data_dir, "farewell"))).toBe(true);
});

test("refuses cognition and embedding in External mode with a clear error", async () => {
  const host = startHost("./greeter-provider.ts#GreeterProvider");
  await host.initialize(init(), 20_000);
  expect(await host.invoke(call("think", { text: "x" }))).toMatchObject({
    status: "Error",
    error: {
      code: "UnsupportedOperation",
      message: expect.stringMatching(/^requestCognition is not available in External mode; install/),
    },
  });
  const context = createExternalContext(init(), () => {});
  await expect(context.requestEmbedding("x")).rejects.toMatchObject({
    code: "UnsupportedOperation",
    message: expect.stringMatching(/^requestEmbedding is not available in External mode; install/),
  });
});

test("names the missing export of a module without the provider", async () => {
  const host = startHost("./greeter-provider.ts#Other");
  await expect(host.initialize(init(), 20_000)).rejects.toMatchObject({
    code: "handshake_failed",
    message: expect.stringContaining("the module does not export Other"),
  });
});

test("serves providers a copy of the instrument API that equals the original", async () => {
  const source = `data:text/javascript,${encodeURIComponent(INSTRUMENT_API_SOURCE)}`;
  const host_api = (await import(/* @vite-ignore */ source)) as {
    HEFTY_VERSION: string;
    InstrumentResult: typeof InstrumentResult;
  };
  expect(host_api.HEFTY_VERSION).toBe(HEFTY_VERSION);
  expect(Object.keys(host_api.InstrumentResult)).toEqual(Object.keys(InstrumentResult));
  const error = { code: "X", message: "x" };
  for (const fields of [{}, { stdout: "a", stderr: "b" }, { error }, { status: "Error" as const }]) {
    expect(host_api.InstrumentResult.stdio(fields)).toEqual(InstrumentResult.stdio(fields));
  }
  expect(host_api.InstrumentResult.data([1])).toEqual(InstrumentResult.data([1]));
});

test("InstrumentResult.stdio has status Success unless it is given an error", () => {
  expect(InstrumentResult.stdio({ stdout: "a" })).toEqual({
    status: "Success",
    data: { stdout: "a", stderr: "" },
  });
  const error = { code: "CONNECTION_ERROR", message: "Could not reach API" };
  expect(InstrumentResult.stdio({ stderr: "refused", error })).toEqual({
    status: "Error",
    data: { stdout: "", stderr: "refused" },
    error,
  });
});
