/**
 * Egress of a real sandbox through the real runner: what is visible inside, which call a refusal belongs to, when
 * connections are held, limits, and cleanup.
 */
import { readdirSync } from "node:fs";
import type { ArtifactFiles } from "@backplane/ports";
import { expect, test } from "vitest";
import { publicOnly } from "../../src/egress/destinations/address.ts";
import type { RunnerOptions } from "../../src/index.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { PUBLIC } from "../support/egress.ts";
import { listen } from "../support/loopback.ts";
import { requestOf, side, vai } from "../support/request.ts";
import { until } from "../support/runner.ts";

const PUBLIC_EGRESS: RunnerOptions["egress"] = {
  forbidden: (address) => (address === PUBLIC ? null : publicOnly(address)),
  resolve: async () => [PUBLIC],
};
const isolated = { class: "isolated" } as const;
const grantEgress = (...allowed_domains: string[]) => ({ network: "egress" as const, allowed_domains });

async function startHttpServer() {
  return await listen((socket) => {
    socket.on("error", () => {});
    socket.once("data", () =>
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"),
    );
  }, PUBLIC);
}

test("opens privileged ports inside the sandbox and leaves the plugin neither the capability nor a descriptor", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const { port } = await startHttpServer();
  const grant = grantEgress("a.test", `b.test:${port}`);
  for (const options of [isolated, {}]) {
    const { result } = await test_runner.run(
      vai("inspects-network", { ...options, grant, input: { fetch: [] } }),
    );
    expect(result).toMatchObject({
      capabilities: Array.from({ length: 5 }, () => "0000000000000000"),
      channel: null,
      sockets: [],
      listening: [80, 443, 3128, port].sort((a, b) => a - b),
    });
    expect((result as { hosts: string }).hosts).toContain("127.64.0.1 a.test\n127.64.0.2 b.test\n");
    expect((result as { env: object }).env).toMatchObject({ HTTPS_PROXY: "http://127.0.0.1:3128" });
  }
});

test("records the refusals of an isolated call with the requested name and without secrets", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const { port } = await startHttpServer();
  const fetch = [`http://a.test:${port}/`, `http://SECRETvalue9.evil.test:${port}/`, "http://10.0.0.1/"];
  const outcome = await test_runner.run(
    vai("inspects-network", {
      ...isolated,
      grant: grantEgress("a.test"),
      context: { secrets: { key: "SECRETvalue9" } },
      input: { fetch },
    }),
  );
  expect((outcome.result as { answers: unknown[] }).answers).toEqual([200, 403, 403]);
  expect(outcome.egress).toEqual({
    refused: 2,
    refusals: [
      expect.objectContaining({
        host: expect.stringMatching(/evil\.test$/),
        port,
        reason: "domain.not_allowed",
      }),
      {
        host: "10.0.0.1",
        port: 80,
        reason: "address.literal",
        message: expect.stringContaining("Only host names"),
        at: expect.stringMatching(/^20.*Z$/),
      },
    ],
  });
  expect(JSON.stringify([outcome.egress, test_runner.logs])).not.toMatch(/secretvalue9/i);
  expect(test_runner.logs.join()).toContain("egress refused");
});

test("marks refusals as shared if several calls run in the process", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const grant = grantEgress("a.test");
  const fetchInCall = (fetch: string[], wait_ms = 0) =>
    test_runner.run(vai("inspects-network", { grant, input: { fetch, wait_ms } }));
  const alone = await fetchInCall(["http://one.test/"]);
  expect(alone.egress?.refusals).toMatchObject([{ host: "one.test" }]);
  expect(alone.egress?.refusals[0]).not.toHaveProperty("shared");
  const quiet = fetchInCall([], 1_500);
  await until(() => test_runner.runner.health().running === 1);
  const requesting = await fetchInCall(["http://two.test/"]);
  expect(requesting.egress?.refusals).toMatchObject([{ host: "two.test", shared: true }]);
  expect((await quiet).egress?.refusals).toMatchObject([{ host: "two.test", shared: true }]);
  expect((await fetchInCall([])).egress).toBeNull();
  expect(test_runner.runner.health().processes).toBe(1);
});

test("attributes connections refused during startup to the first call", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const started = await test_runner.run(vai("asks-at-start", { ...isolated, grant: grantEgress("a.test") }));
  expect(started).toMatchObject({ status: "succeeded", egress: { refusals: [{ host: "early.test" }] } });
});

test("records refused connections to this machine, including those that kept the process from starting", async () => {
  const test_runner = createConfinedTestRunner({ egress: { operator_allows: ["localhost:1"] } });
  const grant = grantEgress("localhost:5432");
  const refused = { host: "localhost", port: 5432, reason: "address.forbidden", detail: "loopback" };
  const input = { fetch: ["http://localhost:5432/"] };
  const served = await test_runner.run(vai("inspects-network", { ...isolated, grant, input }));
  expect(served).toMatchObject({ status: "succeeded", egress: { refused: 1, refusals: [refused] } });
  const failed = await test_runner.run(vai("needs-a-database", { ...isolated, grant }));
  expect(failed).toMatchObject({
    status: "failed",
    error: {
      message: expect.stringMatching(
        /Error: cannot reach the database at localhost:5432.*refused while it started: localhost:5432 \(the name resolves to an address that is not public\)\.$/,
      ),
      details: { fix: expect.stringContaining('"localhost:5432" to egress.allow_private') },
    },
    egress: { refused: 1, refusals: [refused] },
  });
  const logged = test_runner.logs.filter((line) => line.includes("egress refused"));
  expect(logged.length).toBe(2);
});

test("lists refused connections that kept a server from listing its tools", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const env = { MARK: test_runner.mark, LISTS_FROM: "http://api.test/" };
  const server = { protocol: "mcp.stdio" as const, entrypoint: ["node", "./mcp.mjs", "plain"] };
  const request = requestOf({
    ...server,
    ...isolated,
    grant: grantEgress("a.test"),
    env,
    timeout_ms: 60_000,
  });
  await expect(test_runner.runner.describe!(request)).rejects.toMatchObject({
    code: "plugin_failed",
    message: "fetch failed. Connections refused: api.test:80 (the grant does not allow this host and port).",
    fix: expect.stringContaining("--domains api.test:80") as unknown,
  });
});

test("applies egress limits per call and not per process", async () => {
  const test_runner = createConfinedTestRunner({
    egress: { ...PUBLIC_EGRESS, limits: { total_connections: 2 } },
  });
  const { port } = await startHttpServer();
  const url = `http://a.test:${port}/`;
  const fetchTwice = () =>
    test_runner.run(vai("inspects-network", { grant: grantEgress("a.test"), input: { fetch: [url, url] } }));
  for (let i = 0; i < 3; i++) {
    const outcome = await fetchTwice();
    expect((outcome.result as { answers: number[] }).answers).toEqual([200, 200]);
    expect(outcome.egress).toBeNull();
  }
  const input = { fetch: [url, url, url] };
  const over_limit = await test_runner.run(vai("inspects-network", { grant: grantEgress("a.test"), input }));
  expect(over_limit).toMatchObject({ result: { answers: [200, 200, 429] }, egress: { refused: 1 } });
});

test("gives the plugin the gateway's address inside the sandbox only if the call has an API scope", async () => {
  const base_url = "https://gateway.acme.test";
  const test_runner = createConfinedTestRunner({
    egress: { ...PUBLIC_EGRESS, gateway: () => ({ base_url, certificate: null }) },
  });
  const addressFor = async (scopes: "sessions:read"[]) => {
    const change = { grant: { gateway_api_scopes: scopes }, context: { gateway: { base_url, scopes } } };
    const { result } = await test_runner.run(vai("context", { ...isolated, ...change }));
    return (result as unknown as { context: { gateway: { base_url: string } } }).context.gateway.base_url;
  };
  expect(await addressFor(["sessions:read"])).toBe("http://127.0.0.1:7420");
  expect(await addressFor([])).toBe(base_url);
});

test("releases all listeners of a sandbox after its exit", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const grant = grantEgress("a.test", "b.test:8080");
  const runEcho = () => test_runner.run(vai("echo", { ...isolated, grant }));
  const callAndExit = async () => {
    expect(await runEcho()).toMatchObject({ status: "succeeded" });
    await until(() => test_runner.runner.health().processes === 0);
  };
  await callAndExit();
  const open = () => readdirSync("/proc/self/fd").length;
  const initial_count = open();
  // Each run opens four listeners; one left open would keep the whole network namespace alive.
  for (let i = 0; i < 10; i++) await callAndExit();
  await until(() => open() <= initial_count + 5);
});

/** Starts a server that records the paths of requested pages. */
async function startRecordingServer() {
  const requested_paths: string[] = [];
  const { port } = await listen((socket) => {
    socket.once("data", (data) => {
      requested_paths.push(String(data).split(" ")[1]!);
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    });
  }, PUBLIC);
  return { requested_paths, port, grant: grantEgress(`a.test:${port}`) };
}
const pause = () => new Promise((resolve) => setTimeout(resolve, 300));

test("holds the egress of a prewarmed process until its call", async () => {
  const test_runner = createConfinedTestRunner({
    egress: PUBLIC_EGRESS,
    limits: { prewarmed: 1, prewarmed_per_key: 1 },
  });
  const { requested_paths, grant } = await startRecordingServer();
  const request = () => vai("calls-home", { ...isolated, pool_key: "a", grant });
  const first = await test_runner.run(request());
  expect(first.result).toMatchObject({ answer: 200 });
  await until(() => test_runner.runner.health().prewarmed === 1);
  await pause();
  expect(requested_paths).toEqual([expect.stringMatching(/^\/early-/)]);
  const { result } = await test_runner.run(request());
  const { who, answer } = result as { who: string; answer: number };
  expect(answer).toBe(200);
  expect(requested_paths).toEqual([expect.anything(), `/early-${who}`]);
});

test("holds the egress of a process after its answer, while files of the call are stored", async () => {
  for (const execution of [isolated, {}]) {
    let finishStoring = () => {};
    const stored = new Promise<void>((resolve) => {
      finishStoring = resolve;
    });
    let storing = false;
    const store = async () => {
      storing = true;
      await stored;
    };
    const artifacts: ArtifactFiles = { store, open: async () => null, sweep: async () => 0 };
    const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS, artifacts });
    const { requested_paths, grant } = await startRecordingServer();
    const call = test_runner.run(
      vai("calls-home", { ...execution, grant: { ...grant, filesystem: "scratch" } }),
    );
    await until(() => storing);
    await pause();
    const requested_before_store = [...requested_paths];
    finishStoring();
    expect(await call).toMatchObject({ status: "succeeded", result: { answer: 200 } });
    expect(requested_before_store).toEqual([expect.stringMatching(/^\/early-/)]);
  }
});

test("holds the egress of a side process after its answer, while its exit is awaited", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS, timeouts: { teardown_ms: 300 } });
  const { requested_paths, port, grant } = await startRecordingServer();
  const input = { url: `http://a.test:${port}` };
  const { status } = await test_runner.run(side("calls-home", { ...isolated, grant, input }));
  expect({ status, requested_paths }).toEqual({ status: "succeeded", requested_paths: ["/early"] });
});

test("holds the egress of a worker without a call until the next one", async () => {
  const test_runner = createConfinedTestRunner({ egress: PUBLIC_EGRESS });
  const { requested_paths, grant } = await startRecordingServer();
  const { result } = await test_runner.run(vai("calls-home", { grant }));
  const { who } = result as { who: string };
  await pause();
  expect(requested_paths).toEqual([`/early-${who}`]);
  const next = test_runner.run(vai("calls-home", { grant, input: { wait_ms: 5_000 } }));
  await until(() => requested_paths.length > 1);
  expect(requested_paths[1]).toBe(`/late-${who}`);
  await next;
});
