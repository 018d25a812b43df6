import { once } from "node:events";
import { connect } from "node:net";
import type { Kernel } from "@backplane/ports";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
let base: string;
let watchers = 0;
beforeEach(async () => {
  api = await startApi({ wrap: countWatchers, api: { limits: { event_streams: 12 } } });
  base = await api.api.listen({ host: "127.0.0.1", port: 0 });
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
  await api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" },
  });
});
afterEach(() => api.close());

/** Wraps the kernel to count open watchers. */
function countWatchers(kernel: Kernel): Kernel {
  return {
    ...kernel,
    invocations: {
      ...kernel.invocations,
      async *watch(...args) {
        watchers++;
        try {
          yield* kernel.invocations.watch(...args);
        } finally {
          watchers--;
        }
      },
    },
  };
}

const open = (path: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  fetch(base + path, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...headers },
    ...(signal && { signal }),
  });

async function startCall(): Promise<string> {
  const request_count = api.runner.requests.length;
  const started = await api.call("POST", "/v1/invocations", {
    body: { export_id: "echo", input: { do: "wait" } },
  });
  await api.runner.started(request_count + 1);
  return started.json.id;
}

/** Reads until the text so far satisfies `enough`. */
async function readUntil(response: Response, enough: (text: string) => boolean): Promise<string> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!enough(text)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  reader.releaseLock();
  return text;
}

const readToEnd = (response: Response) => readUntil(response, () => false);

verifies(
  "api.invocations",
  "resumes a lost stream with Last-Event-ID without missing or repeating an event",
  async () => {
    const id = await startCall();
    const client = new AbortController();
    const first = await open(`/v1/invocations/${id}/events`, {}, client.signal);
    for (const message of ["one", "two"]) api.runner.emit(id, { type: "progress", message });
    const first_text = await readUntil(first, (text) => text.includes('"two"'));
    expect(first_text).toMatch(/id: 1\ndata: .*"one".*\n\nid: 2\ndata: .*"two"/);
    client.abort();
    api.runner.emit(id, { type: "progress", message: "three" });
    const second = await open(`/v1/invocations/${id}/events`, { "last-event-id": "2" });
    api.runner.emit(id, { type: "progress", message: "four" });
    api.runner.release(id);
    const rest = await second.text();
    expect([...rest.matchAll(/^id: (\d+)$/gm)].map((match) => match[1])).toEqual(["3", "4"]);
    expect(rest).toMatch(/event: settled\ndata: \{"id":"inv_.*"status":"succeeded"/);
  },
);

test("stops watching when the client disconnects", async () => {
  const id = await startCall();
  const client = new AbortController();
  const streams = await Promise.all(
    Array.from({ length: 10 }, () => open(`/v1/invocations/${id}/events`, {}, client.signal)),
  );
  await Promise.all(streams.map((stream) => readUntil(stream, (text) => text.includes("connected"))));
  await vi.waitFor(() => expect(watchers).toBe(10), 5_000);
  client.abort();
  await vi.waitFor(() => expect(watchers).toBe(0), 5_000);
  expect((await api.call("GET", "/metrics")).text).toMatch(/backplane_event_streams 0/);
});

test("ends open streams when the server closes", async () => {
  const id = await startCall();
  const stream = await open(`/v1/invocations/${id}/events`);
  const all = await open("/v1/events");
  await readUntil(stream, (text) => text.includes("connected"));
  const closed = api.api.close();
  await Promise.all([readToEnd(stream), readToEnd(all), closed]);
  expect(watchers).toBe(0);
});

test("sends heartbeats on a quiet stream", async () => {
  const id = await startCall();
  const stream = await open(`/v1/invocations/${id}/events`);
  await readUntil(stream, (text) => text.includes("connected"));
  api.clock.advance(15_000);
  expect(await readUntil(stream, (text) => text.includes("alive"))).toContain(": alive\n\n");
  api.runner.release(id);
  await readToEnd(stream);
});

test("streams semantic events with type and cursor and resumes after a cursor", async () => {
  const done = await api.call("POST", "/v1/invocations?wait", { body: { export_id: "echo", input: {} } });
  const text = await readUntil(await open("/v1/events"), (so_far) => so_far.includes(done.json.id));
  expect(text).toMatch(/id: \d+\nevent: binding.changed\ndata: \{/);
  expect(text).toMatch(/event: invocation.settled/);
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1]));
  expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  const second = await api.call("POST", "/v1/invocations?wait", { body: { export_id: "echo", input: {} } });
  const rest = await readUntil(await open("/v1/events", { "last-event-id": String(ids.at(-1)) }), (so_far) =>
    so_far.includes(second.json.id),
  );
  expect(rest).not.toContain(done.json.id);
});

test("starts after the latest event and reports the position to resume after", async () => {
  const earlier = await api.call("POST", "/v1/invocations?wait", { body: { export_id: "echo", input: {} } });
  await readUntil(await open("/v1/events"), (so_far) => so_far.includes(earlier.json.id));
  // The position follows the commits with a short delay.
  const readPosition = async () => {
    const text = await readUntil(await open("/v1/events?after=latest"), (so_far) =>
      so_far.includes("\ndata: "),
    );
    const [, id, seq] = /id: (\d+)\nevent: position\ndata: \{"seq":(\d+)\}/.exec(text)!;
    expect(id).toBe(seq);
    return Number(id);
  };
  const all = await readUntil(await open("/v1/events"), (so_far) => so_far.includes(earlier.json.id));
  const last = Number([...all.matchAll(/^id: (\d+)$/gm)].at(-1)![1]);
  await vi.waitFor(async () => expect(await readPosition()).toBeGreaterThanOrEqual(last), 10_000);
  const stream = await open("/v1/events?after=latest");
  const later = await api.call("POST", "/v1/invocations?wait", { body: { export_id: "echo", input: {} } });
  const text = await readUntil(stream, (so_far) => so_far.includes(later.json.id));
  expect(text).not.toContain(earlier.json.id);
  const resumed = await open("/v1/events?after=latest", { "last-event-id": String(last) });
  expect(await readUntil(resumed, (so_far) => so_far.includes(later.json.id))).not.toContain("position");
});

test("responds 413 to an upload over the limit while the client is still sending", async () => {
  await api.close();
  api = await startApi({ api: { limits: { upload_bytes: 100_000 } } });
  base = await api.api.listen({ host: "127.0.0.1", port: 0 });
  const { port } = api.api.server.address() as { port: number };
  const socket = connect(port, "127.0.0.1");
  socket.write(
    `POST /v1/plugin-packages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n` +
      "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
  );
  // An uncompressed tar with one file of 300 kB whose end is never sent.
  const header = tarHeader("noise.bin", 300_000);
  for (const part of [header, ...Array<Buffer>(3).fill(Buffer.alloc(50_000, 7))])
    socket.write(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n")]));
  const [response] = (await once(socket, "data")) as [Buffer];
  expect(response.toString()).toMatch(/^HTTP\/1\.1 413 .*request\.too_large/s);
  socket.destroy();
});

function tarHeader(name: string, size: number): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0000644\0" + "0000000\0" + "0000000\0", 100);
  block.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  block.write("00000000000\0" + "        " + "0", 136);
  block.write("ustar\x0000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

test("rejects an invalid upload before the rest of it is sent", async () => {
  const { port } = api.api.server.address() as { port: number };
  const socket = connect(port, "127.0.0.1");
  socket.write(
    `POST /v1/plugin-packages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n` +
      "Content-Type: application/octet-stream\r\nContent-Length: 100000000\r\n\r\n",
  );
  socket.write(Buffer.alloc(64 * 1024, 1));
  const [response] = (await once(socket, "data")) as [Buffer];
  expect(response.toString()).toMatch(/^HTTP\/1\.1 422 /);
  socket.destroy();
});

test("rejects streams over the limit with 429 until one is closed", async () => {
  const stops = Array.from({ length: 12 }).map(() => new AbortController());
  // Kept in a list, because the garbage collector closes unreferenced responses.
  const held: Response[] = [];
  for (const stop of stops) held.push(await open("/v1/events", {}, stop.signal));
  expect(held.map((response) => response.status)).toEqual(stops.map(() => 200));
  const rejected = await open("/v1/events");
  expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "5"]);
  expect(await rejected.json()).toMatchObject({ error: { code: "request.overloaded", retryable: true } });
  // Other requests are still served.
  expect((await api.call("GET", "/v1/status")).status).toBe(200);
  stops[0]!.abort();
  await vi.waitFor(async () => {
    const stop = new AbortController();
    stops.push(stop);
    held.push(await open("/v1/events", {}, stop.signal));
    expect(held.at(-1)!.status).toBe(200);
  });
  for (const stop of stops) stop.abort();
});
