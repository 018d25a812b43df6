import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withResponseTimeout } from "../../src/api/response-timeout.ts";

/** Accepts requests and responds only to those to /fast. */
const server = createServer((request, response) => {
  if (request.url === "/fast") response.end("ok");
});
let origin = "";
beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test("fails a request that gets no response in time", async () => {
  await expect(withResponseTimeout(fetch, 50)(`${origin}/never`)).rejects.toMatchObject({
    name: "TimeoutError",
  });
  expect(await (await withResponseTimeout(fetch)(`${origin}/fast`)).text()).toBe("ok");
});

test("adds the wait time of a request to its timeout, and sets no timeout for an event stream", async () => {
  const send = withResponseTimeout(fetch, 50);
  const stop = new AbortController();
  const ended: string[] = [];
  const open = [
    send(`${origin}/v1/invocations?wait=60`, { signal: stop.signal }),
    send(`${origin}/v1/events`, { headers: { accept: "text/event-stream" }, signal: stop.signal }),
  ].map((request) => request.catch((error: Error) => void ended.push(error.name)));
  await new Promise((done) => setTimeout(done, 300));
  expect(ended).toEqual([]);
  stop.abort();
  await Promise.all(open);
  expect(ended).toEqual(["AbortError", "AbortError"]);
});
