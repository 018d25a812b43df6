/** Instrument plugins inside the gateway process: trust, module graphs, context, lifecycle. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { IsolationMode } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { buildInstrumentHost } from "../../../../scripts/build-instrument-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { FIXTURES, type RequestChange, requestOf } from "../support/request.ts";
import { createTestRunner, type TestRunner, until } from "../support/runner.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-inline-"));
const folder = join(base, "plugin");
let host = "";
beforeAll(async () => {
  host = await buildInstrumentHost(join(base, "instrument-host.mjs"));
  cpSync(join(FIXTURES, "inline-plugin"), folder, { recursive: true });
  const dependency = join(folder, "node_modules/own-dep");
  mkdirSync(dependency, { recursive: true });
  writeFileSync(
    join(dependency, "package.json"),
    '{"name":"own-dep","type":"module","exports":"./index.js"}',
  );
  writeFileSync(join(dependency, "index.js"), 'export const owned = "mine";');
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

interface InlineRunner {
  test_runner: TestRunner;
  requests: unknown[];
  log: () => string[];
}

function createInlineRunner(): InlineRunner {
  const data_root = mkdtempSync(join(tmpdir(), "backplane-data-"));
  const requests: unknown[] = [];
  const test_runner = createTestRunner({
    folder,
    data_root,
    programs: { instruments: host },
    services: {
      async requestCognition(service_user, prompt, max_tokens) {
        requests.push([service_user, prompt, max_tokens]);
        return "short";
      },
      async requestEmbedding(service_user, text) {
        requests.push([service_user, text]);
        return [0.5, 0.25];
      },
    },
  });
  onTestFinished(() => rmSync(data_root, { recursive: true, force: true }));
  const file = join(data_root, "plugins/inline-demo/org_1/org/log");
  const log = () => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : []);
  return { test_runner, requests, log };
}

function plugin(isolation: IsolationMode, change: RequestChange = {}): RequestChange {
  const runtime = {
    protocol: "module.instrument" as const,
    transport: "stdio" as const,
    entrypoint: ["node", "./provider.mjs#Provider"],
    env: {},
    instrument: { plugin_id: "inline-demo", author: "us", isolation, dependencies: [] },
  };
  return {
    class: "inline",
    export_id: "count",
    pool_key: `sha/bind_1@1/-/${isolation}`,
    ...change,
    package: { package_id: "hefty/inline-demo", runtime },
  };
}
const structured = (outcome: { result: unknown }) =>
  (outcome.result as { structured_output: Record<string, unknown> }).structured_output;

verifies(
  "instr.isolation",
  "refuses an untrusted module with instructions, and runs it as External",
  async () => {
    for (const isolation of ["InProcess", "ClassLoaderIsolated"] as const) {
      const { log, test_runner } = createInlineRunner();
      const refused = await test_runner.run(plugin(isolation, { class: "isolated" }));
      expect(refused).toMatchObject({
        status: "failed",
        dispatched: false,
        error: { code: "plugin.untrusted" },
      });
      expect(refused.error?.message).toContain(isolation);
      expect(refused.error?.message).toMatch(/--class worker.*--class inline/);
      const request = { ...requestOf(plugin(isolation, { class: "isolated" })), timeout_ms: 1_000 };
      await expect(test_runner.runner.describe!(request)).rejects.toMatchObject({ code: "plugin.untrusted" });
      // The provider was not initialized.
      expect(log()).toEqual([]);
      // As External it runs in its own process, without the gateway's models.
      const outside = await test_runner.run(
        plugin(isolation, { class: "worker", export_id: "think", input: { text: "x" } }),
      );
      expect(test_runner.runner.health().processes).toBe(1);
      expect(outside).toMatchObject({ error: { details: { plugin_code: "UnsupportedOperation" } } });
    }
  },
);

verifies(
  "instr.isolation",
  "runs both trusted modes in this process with their own dependencies",
  async () => {
    for (const isolation of ["InProcess", "ClassLoaderIsolated"] as const) {
      const { test_runner } = createInlineRunner();
      const outcome = await test_runner.run(plugin(isolation));
      expect(structured(outcome)).toMatchObject({ count: 1, owned: "mine" });
      expect(test_runner.runner.health().processes).toBe(0);
    }
  },
);

verifies(
  "instr.isolation",
  "shows the host's libraries to InProcess but not to ClassLoaderIsolated",
  async () => {
    const library = { export_id: "host_library", input: { name: "@backplane/contract" } };
    const inside = await createInlineRunner().test_runner.run(plugin("InProcess", library));
    expect(inside.error).toBeNull();
    expect(structured(inside)).toEqual({ keys: true });
    const isolated = await createInlineRunner().test_runner.run(plugin("ClassLoaderIsolated", library));
    expect(isolated).toMatchObject({
      status: "failed",
      error: {
        message: expect.stringContaining(
          "@backplane/contract is not visible to a ClassLoaderIsolated plugin",
        ),
      },
    });
    const outside = { export_id: "host_library", input: { name: import.meta.url } };
    expect(await createInlineRunner().test_runner.run(plugin("ClassLoaderIsolated", outside))).toMatchObject({
      error: { message: expect.stringContaining("is not visible") },
    });
  },
);

test("shares no state between two bindings of one package", async () => {
  const { test_runner } = createInlineRunner();
  const first = plugin("ClassLoaderIsolated", { pool_key: "sha/bind_1@1/-/g" });
  const other_binding = plugin("ClassLoaderIsolated", { pool_key: "sha/bind_2@1/-/g", binding_id: "bind_2" });
  await test_runner.run(first);
  expect(structured(await test_runner.run(first)).count).toBe(2);
  expect(structured(await test_runner.run(other_binding)).count).toBe(1);
});

test("initializes a new provider with a rotated secret for the next call", async () => {
  const { log, test_runner } = createInlineRunner();
  for (const token of ["s3cret-first", "s3cret-first", "s3cret-second"]) {
    const outcome = await test_runner.run(plugin("InProcess", { context: { secrets: { token } } }));
    expect(structured(outcome).config).toEqual({ token: "[redacted]" });
  }
  expect(log()).toHaveLength(3);
  expect(log().filter((line) => line.startsWith("initialize"))).toHaveLength(2);
});

describe("the context", () => {
  verifies(
    "instr.context",
    "provides id, data folder, flat config, version, logger, cognition and embedding",
    async () => {
      const { requests, log, test_runner } = createInlineRunner();
      const context = { config: { a: { b: true } }, secrets: { token: "s3cret-token" } };
      const outcome = await test_runner.run(plugin("InProcess", { context }));
      expect(structured(outcome).config).toEqual({ "a.b": "true", token: "[redacted]" });
      expect(log()).toEqual(["initialize inline-demo true"]);
      expect(test_runner.logs).toContainEqual(
        expect.stringMatching(/^info ready .*"answer":42.*"plugin":"inline-demo"/),
      );
      const answered = await test_runner.run(
        plugin("InProcess", { context, export_id: "think", input: { text: "long" } }),
      );
      expect(structured(answered)).toEqual({ summary: "short", float32: true, size: 2 });
      const service_user = {
        org_id: "org_1",
        project_id: null,
        binding_id: "bind_1",
        plugin_id: "inline-demo",
      };
      expect(requests).toEqual([
        [service_user, "Summarize: long", 50],
        [service_user, "short"],
      ]);
    },
  );

  verifies(
    "instr.external.limits",
    "provides cognition in both inline modes but not in External",
    async () => {
      for (const isolation of ["InProcess", "ClassLoaderIsolated"] as const) {
        const { test_runner } = createInlineRunner();
        const think = { export_id: "think", input: { text: "x" } };
        expect(await test_runner.run(plugin(isolation, think))).toMatchObject({ status: "succeeded" });
        const external = await test_runner.run(
          plugin(isolation, { ...think, class: "worker", pool_key: "w" }),
        );
        expect(external.error).toMatchObject({
          message: expect.stringContaining("requestCognition is not available in External mode"),
          details: { plugin_code: "UnsupportedOperation" },
        });
      }
    },
  );
});

describe("a call in this process", () => {
  test("fails with the code that the instrument threw", async () => {
    expect(
      await createInlineRunner().test_runner.run(plugin("InProcess", { export_id: "throw" })),
    ).toMatchObject({
      status: "failed",
      error: { code: "plugin_failed", message: "broken", details: { plugin_code: "BROKEN" } },
    });
  });
  test("ends at its deadline, aborts its signal, and ignores a later answer", async () => {
    const { log, test_runner } = createInlineRunner();
    // Loads the plugin first, so that the deadline covers the call alone.
    await test_runner.run(plugin("InProcess"));
    const timed_out = await test_runner.run(plugin("InProcess", { export_id: "sleep", timeout_ms: 1_000 }));
    expect(timed_out).toMatchObject({ status: "failed", error: { code: "timeout" } });
    await until(() => log().includes("aborted"));
  });
  test("can be cancelled", async () => {
    const { log, test_runner } = createInlineRunner();
    const running = test_runner.run(plugin("InProcess", { export_id: "sleep", invocation_id: "inv_c" }));
    await until(() => log().includes("sleeping"));
    expect(test_runner.runner.cancel("inv_c", "user")).toBe(true);
    expect(await running).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
    await until(() => log().includes("aborted"));
  });
  test("reports an unknown instrument", async () => {
    expect(
      await createInlineRunner().test_runner.run(plugin("InProcess", { export_id: "nothing" })),
    ).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("unknown instrument") },
    });
  });
});

describe("the lifecycle", () => {
  test("reports a provider that fails to initialize, and retries with the next call", async () => {
    const { test_runner } = createInlineRunner();
    const refuse = { context: { config: { refuse: "yes" } } };
    const outcome = await test_runner.run(plugin("InProcess", refuse));
    expect(outcome.error).toMatchObject({
      code: "plugin.invalid",
      message: expect.stringContaining("requires base-url"),
    });
    expect(await test_runner.run(plugin("InProcess"))).toMatchObject({ status: "succeeded" });
  });
  test("does not block callers of a provider that hangs", async () => {
    const hang = { context: { config: { hang: "yes" } }, timeout_ms: 200 };
    expect(await createInlineRunner().test_runner.run(plugin("InProcess", hang))).toMatchObject({
      error: { code: "timeout" },
    });
  });
  test("shuts down and restarts the provider of a changed binding", async () => {
    const { log, test_runner } = createInlineRunner();
    await test_runner.run(plugin("InProcess"));
    test_runner.runner.retire("bind_1");
    expect(
      structured(await test_runner.run(plugin("InProcess", { pool_key: "sha/bind_1@2/-/g" }))).count,
    ).toBe(1);
    await test_runner.runner.close(1_000);
    const line = "initialize inline-demo true";
    expect(log()).toEqual([line, "shutdown", line, "shutdown"]);
  });
  test("gives the data folder to a process after the last call inside the gateway, and takes it back", async () => {
    const { log, test_runner } = createInlineRunner();
    const sleeping = test_runner.run(
      plugin("InProcess", { export_id: "sleep", invocation_id: "inv_s", pool_key: "sha/bind_1@1/-/g" }),
    );
    await until(() => log().includes("sleeping"));
    test_runner.runner.retire("bind_1");
    const process = test_runner.run(plugin("InProcess", { class: "worker", pool_key: "sha/bind_1@2/-/g" }));
    test_runner.runner.cancel("inv_s", "user");
    expect(await process).toMatchObject({ status: "succeeded" });
    await sleeping;
    await test_runner.run(plugin("InProcess", { pool_key: "sha/bind_1@3/-/g" }));
    const line = "initialize inline-demo true";
    expect(log()).toEqual([line, "sleeping", "aborted", "shutdown", line, "shutdown", line]);
  });
  test("answers health checks and rejects requests for any other method", async () => {
    const { test_runner } = createInlineRunner();
    const listener = { notify: () => {}, answerRequest: () => Promise.reject(new Error("nobody")) };
    const send = (method: string, instrument: string) => {
      const request = {
        ...requestOf(plugin("InProcess")),
        method,
        params: { instrument },
        timeout_ms: 5_000,
      };
      return test_runner.runner.request!(request, listener);
    };
    const checkHealth = (instrument: string) => send("healthCheck", instrument);
    expect(await checkHealth("sick")).toEqual({ status: "Degraded", message: "slow" });
    expect(await checkHealth("count")).toEqual({ status: "Healthy" });
    for (const method of ["resources/list", "invoke", ""]) {
      await expect(send(method, "count")).rejects.toMatchObject({
        code: "request.invalid",
        message: `A module.instrument plugin cannot answer ${method}.`,
      });
    }
  });
  test("describes its instruments", async () => {
    const { test_runner } = createInlineRunner();
    const described = await test_runner.runner.describe!({
      ...requestOf(plugin("InProcess")),
      timeout_ms: 5_000,
    });
    expect(described.exports.map(({ id }) => id)).toEqual([
      "count",
      "think",
      "sleep",
      "throw",
      "host_library",
      "sick",
    ]);
    expect(described.info).toMatchObject({ origin: "plugin:inline-demo", isolation: "InProcess" });
  });
});
