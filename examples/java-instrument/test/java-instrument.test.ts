/** The example as a real jar in the JVM of this machine. Without a JDK the tests are skipped. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createPackageImporter, createSchemas, openContentStore } from "@backplane/supply";
import { InstrumentHost, stdioTransport } from "@backplane/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildJar } from "./build-jar.ts";
import { exchangeLines, jdk_problem, jsonRpcError, NO_PERF_DATA, withJdk } from "./with-jdk.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-java-"));
let jar = "";
beforeAll(() => {
  if (jdk_problem === null) jar = buildJar(base);
}, 120_000);
afterAll(() => rmSync(base, { recursive: true, force: true }));

withJdk("imports the jar as a package that is started with java", async () => {
  const schemas = createSchemas();
  const store = openContentStore(join(base, "blobs"));
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" } });
  const imported = await importer.import({ kind: "folder", path: jar });
  expect(imported.manifest).toMatchObject({
    package_id: "hefty/java-text",
    runtime: { protocol: "hefty.jsonrpc", entrypoint: ["java", "-cp", ".:lib/*", "com.example.text.Main"] },
  });
  await schemas.close();
});

withJdk("implements the protocol: list, invoke, health, errors, batch, shutdown", async () => {
  const dataDir = join(base, "data");
  mkdirSync(dataDir);
  const child: ChildProcessWithoutNullStreams = spawn("java", [
    NO_PERF_DATA,
    "-cp",
    jar,
    "com.example.text.Main",
  ]);
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const host = new InstrumentHost({
    transport: stdioTransport(child.stdout, child.stdin),
    onFailure: () => {},
  });
  await host.initialize(
    { pluginId: "java-text", dataDir, config: { language: "cs" }, heftyVersion: "0.22.0" },
    60_000,
  );
  const { instruments, warnings } = await host.listInstruments(60_000);
  expect(instruments.map(({ name, metadata }) => [name, metadata.accessMode])).toEqual([
    ["word_count", "Shared"],
    ["note_append", "Exclusive"],
  ]);
  expect(warnings).toEqual([]);
  const call = (instrument: string, params: Record<string, string>) =>
    host.invoke({ instrument, params, activityId: "a", sessionId: "s", invocationId: "i" });
  expect(await call("word_count", { text: 'Žluť "a" b\nA' })).toEqual({
    status: "Success",
    data: { language: "cs", words: expect.any(Number), counts: expect.objectContaining({ a: 2, b: 1 }) },
  });
  await call("note_append", { text: "one" });
  expect(await call("note_append", { text: "two" })).toMatchObject({ data: { stdout: "2 notes" } });
  expect(readFileSync(join(dataDir, "notes.txt"), "utf8")).toBe("one\ntwo\n");
  expect(await call("word_count", {})).toMatchObject({ status: "Error", error: { code: "MISSING_TEXT" } });
  await expect(call("nothing", { text: "x" })).rejects.toMatchObject({ details: { rpc_code: -32602 } });
  expect(await host.healthCheck("word_count", 60_000)).toMatchObject({ status: "Healthy" });
  await host.shutdown();
  expect(await exited).toBe(0);
});

withJdk("responds to batches and notifications according to JSON-RPC", async () => {
  const lines = [
    '[{"jsonrpc":"2.0","id":1,"method":"dance"},{"jsonrpc":"2.0","method":"dance"},3]',
    '{"jsonrpc":"2.0","method":"listInstruments"}',
    "[]",
    "{broken",
    '{"jsonrpc":"2.0","id":"last","method":"shutdown"}',
  ];
  const responses = exchangeLines(["-cp", jar, "com.example.text.Main"], lines);
  expect(responses).toEqual([
    [jsonRpcError(1, -32601), jsonRpcError(null, -32600)],
    jsonRpcError(null, -32600),
    jsonRpcError(null, -32700),
    { jsonrpc: "2.0", id: "last", result: { success: true } },
  ]);
});

test("contains exactly the sources Json.java and Main.java", () => {
  const sources = readdirSync(fileURLToPath(new URL("../src/com/example/text", import.meta.url)));
  expect(sources.toSorted()).toEqual(["Json.java", "Main.java"]);
});
