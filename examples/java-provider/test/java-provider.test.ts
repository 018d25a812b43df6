/** The provider in the bundled host, in the JVM of this machine. Without a JDK the tests are skipped. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { JsonObject } from "@backplane/contract";
import { createPackageImporter, createSchemas, openContentStore } from "@backplane/supply";
import { InstrumentHost, stdioTransport } from "@backplane/wire";
import { afterAll, beforeAll, expect } from "vitest";
import { findOrBuildJavaHost, JAVA_HOST_CLASS } from "../../../packages/runner/src/programs/java-host.ts";
import {
  exchangeLines,
  jdk_problem,
  jsonRpcError,
  NO_PERF_DATA,
  withJdk,
} from "../../java-instrument/test/with-jdk.ts";
import { buildProviderJar, ODD_PROVIDER_ARGS, SDK_JAVA } from "./build-jar.ts";
import { buildHeftyClasses, type HeftyClasses } from "./hefty-api.ts";

const PROVIDER = "com.example.notes.NotesProvider";
const base = mkdtempSync(join(tmpdir(), "backplane-java-provider-"));
const host_paths = { sources: SDK_JAVA, cache: join(base, "programs") };
let jar = "";
let host_jar = "";
/** The classes of providers that only the tests use. */
let test_classes: HeftyClasses;
beforeAll(async () => {
  if (jdk_problem !== null) return;
  jar = buildProviderJar(base);
  test_classes = buildHeftyClasses(base, ODD_PROVIDER_ARGS);
  host_jar = await findOrBuildJavaHost(host_paths);
}, 120_000);
afterAll(() => rmSync(base, { recursive: true, force: true }));

function startHost(provider = PROVIDER, classes = jar) {
  const args = [NO_PERF_DATA, "-cp", `${host_jar}:${classes}`, JAVA_HOST_CLASS, provider];
  const child: ChildProcessWithoutNullStreams = spawn("java", args);
  let log = "";
  child.stderr.on("data", (chunk) => {
    log += chunk;
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const host = new InstrumentHost({
    transport: stdioTransport(child.stdout, child.stdin),
    onFailure: () => {},
  });
  return { host, exited, log: () => log, child };
}

const initializeParams = (dataDir: string) => ({
  pluginId: "java-notes",
  dataDir,
  config: { signature: "ž" },
  heftyVersion: "0.22.0",
});

withJdk("imports a jar whose class has no main method as a package for the bundled host", async () => {
  const schemas = createSchemas();
  const store = openContentStore(join(base, "blobs"));
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" } });
  const imported = await importer.import({ kind: "folder", path: jar });
  expect(imported.manifest.runtime.entrypoint).toEqual(["backplane-java-host", PROVIDER]);
  // The host provides the API; the jar does not contain it.
  expect(await importer.listFiles(imported.digest, "")).not.toContain(
    "backplane/instruments/Instrument.class",
  );
  await schemas.close();
});

withJdk("compiles the host once, and reports a missing JDK with the command that installs one", async () => {
  expect(await findOrBuildJavaHost(host_paths, "/nowhere")).toBe(host_jar);
  const fresh = { ...host_paths, cache: join(base, "other") };
  await expect(findOrBuildJavaHost(fresh, "/nowhere")).rejects.toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("javac is not on /nowhere"),
    fix: expect.stringContaining("openjdk-17-jdk-headless"),
  });
});

withJdk("implements the protocol: list, concurrent calls, cancel, health, errors, shutdown", async () => {
  const dataDir = join(base, "data");
  mkdirSync(dataDir);
  const { host, exited, log } = startHost();
  await host.initialize(initializeParams(dataDir), 60_000);
  const { instruments, warnings } = await host.listInstruments(60_000);
  expect(warnings).toEqual([]);
  expect(instruments.map(({ name, riskLevel, metadata }) => [name, riskLevel, metadata.accessMode])).toEqual([
    ["note_keep", "LocalWrite", "Exclusive"],
    ["wait_a_while", "ReadOnly", "Shared"],
  ]);
  expect(instruments[0]!.securityRules).toEqual([
    {
      effect: "deny",
      reason: "passwords must not be stored in notes",
      match: { pointer: "/text", pattern: "(?i)password" },
    },
  ]);
  let calls = 0;
  const call = (instrument: string, params: Record<string, string | number>, invocationId = `i${++calls}`) =>
    host.invoke({ instrument, params, activityId: "a", sessionId: "s", invocationId });
  const long = call("wait_a_while", { ms: 60_000 }, "long");
  // Other calls are answered while this one waits.
  expect(await call("note_keep", { text: 'mléko\n"two"' })).toEqual({
    status: "Success",
    data: { notes: 2, signature: "ž" },
  });
  expect(readFileSync(join(dataDir, "notes.txt"), "utf8")).toBe('mléko\n"two"\n');
  host.cancel("long", "enough");
  expect(await long).toMatchObject({ data: { stdout: "stopped, cancelled: true" } });
  expect(await call("note_keep", { text: " " })).toMatchObject({ error: { code: "EMPTY_NOTE" } });
  expect(await call("wait_a_while", { ms: 1, fail: 1 })).toMatchObject({
    status: "Error",
    error: { code: "EXCEPTION", message: "told to fail" },
  });
  expect(await call("wait_a_while", { ms: 1, ask: 1 })).toMatchObject({
    error: {
      code: "UnsupportedOperation",
      message: expect.stringContaining("not available in External mode"),
    },
  });
  await expect(call("nothing", {})).rejects.toMatchObject({ details: { rpc_code: -32602 } });
  expect(await host.healthCheck("note_keep", 60_000)).toEqual({ status: "Healthy" });
  await host.shutdown();
  expect(await exited).toBe(0);
  expect(log()).toContain(`info [java-notes] notes are in ${dataDir}`);
  expect(log()).toContain("output of a plugin is not part of the protocol");
});

withJdk("reports a class that is not a provider, and responds to batches according to JSON-RPC", async () => {
  const { host, child } = startHost("java.lang.Object");
  await expect(host.initialize(initializeParams(base), 60_000)).rejects.toMatchObject({
    message: expect.stringContaining(
      "java.lang.Object implements neither backplane.instruments.InstrumentProvider nor hefty",
    ),
  });
  child.stdin.end();
  const lines = [
    '[{"jsonrpc":"2.0","id":1,"method":"dance"},{"jsonrpc":"2.0","method":"dance"},3]',
    "[]",
    "{broken",
    '{"jsonrpc":"2.0","id":7,"method":"initialize","params":[]}',
    '{"jsonrpc":"2.0","id":"last","method":"shutdown"}',
  ];
  const responses = exchangeLines(["-cp", `${host_jar}:${jar}`, JAVA_HOST_CLASS, PROVIDER], lines);
  expect(responses).toEqual([
    [jsonRpcError(1, -32601), jsonRpcError(null, -32600)],
    jsonRpcError(null, -32600),
    jsonRpcError(null, -32700),
    jsonRpcError(7, -32602),
    jsonRpcError("last", -32002),
  ]);
});

withJdk("cancels calls of a batch, and calls that no thread has started yet", async () => {
  const { child, exited } = startHost();
  const invoke = (id: string) => ({
    jsonrpc: "2.0",
    id,
    method: "invoke",
    params: { instrument: "wait_a_while", params: { ms: 60_000 }, invocationId: id },
  });
  const cancel = (invocationId: string) => ({ jsonrpc: "2.0", method: "cancel", params: { invocationId } });
  const singles = Array.from({ length: 50 }, (_, index) => `single_${index}`);
  const messages = [
    { jsonrpc: "2.0", id: "first", method: "initialize", params: initializeParams(base) },
    [invoke("in_batch")],
    cancel("in_batch"),
    ...singles.flatMap((id) => [invoke(id), cancel(id)]),
  ];
  child.stdin.write(messages.map((message) => `${JSON.stringify(message)}\n`).join(""));
  const answered: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const answer = JSON.parse(line);
    for (const { id, result } of Array.isArray(answer) ? answer : [answer])
      answered.push(id === "first" ? id : `${id}: ${result.data?.stdout ?? JSON.stringify(result)}`);
    if (answered.length === singles.length + 2) break;
  }
  expect(answered.toSorted()).toEqual(
    ["first", ...["in_batch", ...singles].map((id) => `${id}: stopped, cancelled: true`)].toSorted(),
  );
  child.stdin.end();
  expect(await exited).toBe(0);
});

withJdk(
  "returns an error for a result that cannot be serialized and for an exception whose message cannot be read",
  async () => {
    const { host, exited } = startHost("odd.OddProvider", test_classes.plugin);
    await host.initialize(initializeParams(base), 60_000);
    const call = (what: string) =>
      host.invoke({
        instrument: "odd",
        params: { what },
        activityId: "a",
        sessionId: "s",
        invocationId: what,
        timeoutMs: 20_000,
      });
    expect(await call("deep")).toMatchObject({ error: { message: "java.lang.StackOverflowError" } });
    expect(await call("mute")).toMatchObject({ status: "Error", error: { code: "EXCEPTION" } });
    const reason = "the result cannot be written as JSON";
    const failed = { details: { rpc_code: -32001 }, message: expect.stringContaining(reason) };
    await expect(call("circle")).rejects.toMatchObject(failed);
    await expect(call("textless")).rejects.toMatchObject(failed);
    await host.shutdown();
    expect(await exited).toBe(0);
  },
);

withJdk("runs a provider for Hefty's own API with the libraries that it includes", async () => {
  const { libraries, plugin } = test_classes;
  const { host, exited, log } = startHost("com.example.HelloWorldProvider", `${plugin}:${libraries}`);
  const config = { greeting: "Ahoj" };
  await host.initialize({ ...initializeParams(base), pluginId: "hello-world", config }, 60_000);
  const { instruments, warnings } = await host.listInstruments(60_000);
  expect(warnings).toEqual([]);
  expect(instruments).toEqual([
    {
      name: "hello_world",
      riskLevel: "ReadOnly",
      securityRules: [],
      metadata: {
        name: "hello_world",
        category: "Application",
        description: "Returns a greeting. A minimal plugin instrument example.",
        accessMode: "Shared",
        platform: "All",
        inputSchema: { type: "object" },
        sideEffects: [],
        defaultTimeoutMs: 5_000,
        maxTimeoutMs: 10_000,
        keywords: ["hello", "greet", "example"],
      },
    },
  ]);
  const call = (params: JsonObject) =>
    host.invoke({
      instrument: "hello_world",
      params,
      activityId: "a",
      sessionId: "s1",
      invocationId: "i",
      timeoutMs: 20_000,
    });
  expect(await call({ name: "Eva", list: [1, 1.5, true, null] })).toEqual({
    status: "Success",
    data: { stdout: "Hello, { name : Eva , list :[1,1.5,true,null]} for s1 in 20000" },
  });
  expect(await call({ fail: true })).toEqual({
    status: "Error",
    data: { stdout: "" },
    error: { code: "CONNECTION_ERROR", message: "Could not reach API" },
  });
  expect(await call({ think: true })).toMatchObject({ error: { code: "UnsupportedOperation" } });
  expect(await host.healthCheck("hello_world", 60_000)).toEqual({
    status: "Degraded",
    message: "a little slow",
  });
  await host.shutdown();
  expect(await exited).toBe(0);
  expect(log()).toContain("info [hello-world] Hello World plugin initialized");
  expect(log()).toContain("warn [hello-world] greeting is Ahoj");
  // Without its libraries, the error lists the class and the jars.
  const alone = startHost("com.example.HelloWorldProvider", plugin);
  await expect(alone.host.initialize(initializeParams(base), 60_000)).rejects.toThrow(
    "the class hefty.core.instrument.plugin.InstrumentProvider is neither in the plugin nor in this host; a plugin for Hefty's own API must include it: add the jars of hefty-core, the Scala library, circe-core, slf4j-api to lib/ in the archive",
  );
  alone.child.stdin.end();
});
