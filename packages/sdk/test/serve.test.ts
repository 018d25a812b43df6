/** A plugin as a process, in TypeScript and Python: ownership of stdout, invalid input, and how the process exits. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { encodeContentLength } from "@backplane/wire";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { startPlugin } from "../src/testing/index.ts";

const cwd = fileURLToPath(new URL("fixtures", import.meta.url));
const identity = { package_id: "acme/all-kinds", version: "1.2.3" };
const languages: Record<string, string[]> = {
  TypeScript: ["node", "--conditions=backplane-source", "all-kinds.ts"],
  Python: ["python3", "-B", "all_kinds.py"],
};

describe.each(Object.entries(languages))("%s", (_language, entrypoint) => {
  const start = () => startPlugin(entrypoint, identity, { cwd });

  test("redirects stray prints to stderr without breaking the protocol", async () => {
    const run = await start();
    expect((await run.invoke("prints")).text).toBe("printed");
    run.close();
    await run.ended;
    expect(run.stderr()).toContain("a stray print\n");
    expect(run.stderr()).toContain("and a raw one\n");
    expect(run.violations).toEqual([]);
  });

  verifies("vai.shutdown", "exits with code 0 on shutdown after the call in flight has ended", async () => {
    const run = await start();
    const outcome = await run.invoke("slow", {}, { onEvent: () => run.close() });
    expect(outcome).toMatchObject({ status: "cancelled" });
    expect(await run.ended).toEqual({ code: 0, signal: null });
  });

  test("exits when the host disconnects, with calls in flight", async () => {
    const run = await start();
    const pending = run.invoke("slow", {}, { onEvent: () => run.hangUp() });
    const settled = pending.catch((error: { code: string }) => error.code);
    expect(await run.ended).toEqual({ code: 0, signal: null });
    expect(["crashed", "cancelled"]).toContain(
      await settled.then((x) => (typeof x === "string" ? x : x.status)),
    );
  });

  test.each(["close", "hangUp"] as const)("exits even if a call ignores its cancel (%s)", async (leave) => {
    const run = await start();
    const pending = run.invoke("unresponsive", {}, { onEvent: () => run[leave]() });
    const settled = pending.catch((error: { code: string }) => error.code);
    expect(await run.ended).toEqual({ code: 0, signal: null });
    expect(await settled).toBe("crashed");
  });

  test("exits with code 1 and a message when the host sends invalid data", async () => {
    const { code, stderr, stdout } = await exchangeBytes(entrypoint, ["Content-Length: 12abc\r\n\r\n{}"]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^acme\/all-kinds: .*[Ll]ength/);
    expect(stdout).toBe("");
  });
});

test("TypeScript: prints the stack of an uncaught error and exits with code 1", async () => {
  const run = await startPlugin(languages.TypeScript!, identity, { cwd });
  const call = run.invoke("throws_later").catch((error: { code: string }) => error.code);
  expect(await run.ended).toEqual({ code: 1, signal: null });
  expect(run.stderr()).toMatch(/Error: nobody caught this\n\s+at /);
  expect(await call).toBe("crashed");
});

test("logs the stack of a bug, but not of a reported outcome", async () => {
  for (const entrypoint of Object.values(languages)) {
    const run = await startPlugin(entrypoint, identity, { cwd });
    await run.invoke("failing");
    await run.invoke("throws");
    run.close();
    await run.ended;
    expect(run.stderr()).toMatch(/^\[inv_test_2\] .*(Error: a bug|Traceback)/);
    expect(run.stderr()).not.toContain("The ticket is closed");
  }
});

test("Python: answers a cancel without waiting for a blocking function", async () => {
  const run = await startPlugin(languages.Python!, identity, { cwd });
  const stop = new AbortController();
  const outcome = await run.invoke("slow_blocking", {}, { signal: stop.signal, onEvent: () => stop.abort() });
  expect(outcome.status).toBe("cancelled");
  const expired = await run.invoke("slow_blocking", {}, { context: { deadline_at: isoTimeIn(100) } });
  expect(expired).toMatchObject({ status: "cancelled", text: expect.stringContaining("deadline") });
  run.close();
  expect(await run.ended).toEqual({ code: 0, signal: null });
});

test("Python: cancels a call that is still waiting for a thread", async () => {
  const run = await startPlugin(languages.Python!, identity, { cwd });
  const stops = Array.from({ length: 300 }, () => new AbortController());
  let started = 0;
  const calls = stops.map((stop) =>
    run.invoke(
      "slow",
      {},
      {
        signal: stop.signal,
        onEvent() {
          // All 256 threads are busy: the other 44 calls end here without one.
          if (++started === 256) for (const waiting_stop of stops.slice(256)) waiting_stop.abort();
        },
      },
    ),
  );
  const waiting = await Promise.all(calls.slice(256));
  expect(new Set(waiting.map(({ status, text }) => `${status}: ${text}`))).toEqual(
    new Set(["cancelled: The call was cancelled before it started."]),
  );
  for (const stop of stops) stop.abort();
  expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set(["cancelled"]));
  expect((await run.invoke("echo", "still here")).text).toBe("still here");
  run.close();
  await run.ended;
});

const hello = encodeContentLength({
  protocol: "vai.rpc.v1",
  type: "hello",
  role: "host",
  host: { name: "test", version: "0" },
});

describe.each(Object.entries(languages))("%s and invalid requests", (_language, entrypoint) => {
  const context = { invocation_id: "inv_1", deadline_at: isoTimeIn(20_000) };
  const request = (id: string, change: object) => ({
    protocol: "vai.rpc.v1",
    type: "request",
    id,
    op: "tool.invoke",
    body: { export_id: "echo", context, input: "here" },
    ...change,
  });
  const changed = (changes: object) => ({ body: { export_id: "echo", context: { ...context, ...changes } } });

  test("answers each invalid request once and serves the next call", async () => {
    const changes: object[] = [
      changed({ deadline_at: undefined }),
      changed({ deadline_at: "tomorrow" }),
      { op: "tool.explode" },
      { op: 7 },
      { body: [] },
      { body: { export_id: "echo" } },
      { body: { export_id: "echo", context: [] } },
      { body: { export_id: ["echo"], context } },
      changed({ deadline_at: 5 }),
      changed({ deadline_at: "aaaaaaaaaaaaaaaaaaaZ" }),
      changed({ deadline_at: "9999-99-99T99:99:99Z" }),
      changed({ config: "text", secrets: [1], grant: 0 }),
      { body: { export_id: "echo", context, input: "\ud800" } },
    ];
    const frames = changes.map((change, index) => encodeContentLength(request(`bad_${index}`, change)));
    const good = encodeContentLength(request("good", {}));
    const { code, stdout, stderr } = await exchangeBytes(entrypoint, [hello, ...frames, good], '"id":"good"');
    const answers = changes.map((_, index) => stdout.split(`"id":"bad_${index}"`).length - 1);
    expect(answers, stderr).toEqual(changes.map(() => 1));
    expect(stdout).toContain('"id":"good","ok":true,"body":{"status":"succeeded"');
    expect(code).toBe(0);
  });
});

test("Python: refuses a request without a valid deadline instead of choosing one", async () => {
  const deadlines = [undefined, "tomorrow", "9999-99-99T99:99:99Z"];
  const frames = deadlines.map((deadline_at, index) =>
    encodeContentLength({
      protocol: "vai.rpc.v1",
      type: "request",
      id: `bad_${index}`,
      op: "tool.invoke",
      body: { export_id: "echo", context: { invocation_id: "inv_1", deadline_at }, input: {} },
    }),
  );
  const { stdout } = await exchangeBytes(languages.Python!, [hello, ...frames], '"id":"bad_2"');
  for (const index of deadlines.keys()) expect(stdout).toContain(`"id":"bad_${index}","ok":false`);
});

describe("Python framing", () => {
  const deep = `${"[".repeat(70)}${"]".repeat(70)}`;
  const body = (json: string) => `Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`;
  const refused: Record<string, [string, RegExp]> = {
    "a header without a length": ["X-Other: 1\r\n\r\n{}", /exactly one Content-Length/],
    "two lengths": ["Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", /exactly one/],
    "a negative length": ["Content-Length: -5\r\n\r\n", /of digits/],
    "a length with an exponent": ["Content-Length: 1e9\r\n\r\n", /of digits/],
    "an announced length above the limit": [
      "Content-Length: 999999999\r\n\r\n",
      /999999999 bytes is announced/,
    ],
    "an endless header": [`X: ${"a".repeat(5_000)}`, /header is longer than 4096/],
    "a header name that ends with a space": ["Content-Length : 2\r\n\r\n{}", /not a Content-Length header/],
    "a body that is not JSON": [body("{nope}"), /not JSON/],
    "a body that is not an object": [body("[]"), /must be an object/],
    "another protocol": [body('{"protocol":"vai.rpc.v2","type":"shutdown"}'), /vai\.rpc\.v1/],
    "a body that is nested too deeply": [
      body(`{"protocol":"vai.rpc.v1","type":"cancel","x":${deep}}`),
      /deeper than 64/,
    ],
    NaN: [body('{"protocol":"vai.rpc.v1","type":"cancel","x":NaN}'), /not JSON/],
    "a second hello": [hello, /does not send 'hello'/],
    "input that ends inside a frame": ["Content-Length: 10\r\n\r\n{", /ended inside a frame/],
  };
  test.each(Object.entries(refused))("refuses %s", async (_name, [bytes, message]) => {
    const { code, stderr } = await exchangeBytes(languages.Python!, [hello, bytes]);
    expect(stderr).toMatch(message);
    expect(code).toBe(1);
  });

  test("reads frames that arrive byte by byte, and tolerates other headers", async () => {
    const request = {
      protocol: "vai.rpc.v1",
      type: "request",
      id: "req_1",
      op: "tool.invoke",
      body: { export_id: "echo", context: { deadline_at: isoTimeIn(20_000) }, input: "ů🐎" },
    };
    const json = JSON.stringify(request);
    const stream = `${hello}X-Trace: 1\r\ncontent-LENGTH:  ${Buffer.byteLength(json)}\r\n\r\n${json}`;
    const bytes = [...Buffer.from(stream)].map((byte) => Buffer.of(byte));
    const { code, stdout } = await exchangeBytes(languages.Python!, bytes);
    expect(stdout).toContain('"id":"req_1","ok":true,"body":{"status":"succeeded"');
    expect(stdout).toContain("ů🐎");
    expect(code).toBe(0);
  });

  test("answers an invalid request with ok:false", async () => {
    const bad = { protocol: "vai.rpc.v1", type: "request", id: "req_1", op: "tool.invoke" };
    const { stdout } = await exchangeBytes(languages.Python!, [hello, encodeContentLength(bad)]);
    expect(stdout).toContain('"id":"req_1","ok":false,"error":{"code":"protocol.invalid_frame"');
  });
});

function isoTimeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

/** Writes raw bytes and returns all output once the process has exited. */
async function exchangeBytes(
  entrypoint: readonly string[],
  chunks: readonly (string | Uint8Array)[],
  until?: string,
) {
  const [program = "", ...parameters] = entrypoint;
  const child = spawn(program === "node" ? process.execPath : program, parameters, {
    cwd,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    stdout += chunk;
    if (until !== undefined && stdout.includes(until)) child.stdin.end();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  // The process may refuse the first chunk and exit before the last one is written.
  child.stdin.on("error", () => {});
  for (const chunk of chunks) child.stdin.write(chunk);
  if (until === undefined) child.stdin.end();
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}
