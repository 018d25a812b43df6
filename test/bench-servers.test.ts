/**
 * The benchmarks give the API only the part of a kernel that it uses, and nothing runs them regularly. This test fails
 * when the API uses more than that part.
 */
import { expect, onTestFinished, test } from "vitest";
import { connectClients } from "../bench/src/rows/sessions/watch-clients.ts";
import { startWatchServer } from "../bench/src/rows/sessions/watch-server.ts";

test("the server that the benchmarks watch sends an event to an attached client", async () => {
  const server = await startWatchServer();
  onTestFinished(() => server.close());
  const clients = await connectClients(server.url, 1, () => "watched");
  onTestFinished(() => clients.close());
  const before = clients.frames;
  server.publish("hello");
  await clients.waitForFrames(before + 1);
  expect(clients.frames).toBeGreaterThan(before);
});
