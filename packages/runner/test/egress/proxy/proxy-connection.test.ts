import { connect, type Socket } from "node:net";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";
import { expect, onTestFinished, test } from "vitest";
import { publicOnly } from "../../../src/egress/destinations/address.ts";
import { allowList } from "../../../src/egress/destinations/allow-list.ts";
import { RefusalLog } from "../../../src/egress/destinations/refusals.ts";
import { EgressState } from "../../../src/egress/proxy/egress-state.ts";
import { DEFAULT_EGRESS_LIMITS } from "../../../src/egress/proxy/limits.ts";
import { createTestEgress, TestClient } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

const MANY_BYTES = 24 * 1024 * 1024;

function createState(): EgressState {
  const policy = {
    allowed: allowList([]),
    operator_allows: new Set<string>(),
    gateway: { names: new Set<string>(), reachable: false },
    resolve: () => Promise.resolve([]),
    forbidden: publicOnly,
  };
  const refusal_log = new RefusalLog(10, realTimeClock, () => {});
  const state = new EgressState(policy, DEFAULT_EGRESS_LIMITS, realTimeClock, refusal_log, false);
  onTestFinished(() => state.close());
  return state;
}

/** Returns both ends of a connection. The near end reads nothing until the test resumes it. */
async function connectPair(): Promise<{ near: Socket; far: Socket }> {
  const accepted = Promise.withResolvers<Socket>();
  const { port } = await listen((socket) => accepted.resolve(socket));
  const near = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).pause();
  near.on("error", () => {});
  onTestFinished(() => void near.destroy());
  return { near, far: await accepted.promise };
}

function readAll(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.resume();
  return new Promise((resolve) => socket.once("close", () => resolve(bytes)).once("end", () => socket.end()));
}

test("delivers to the client everything that the server sent before it closed", async () => {
  const client = await connectPair();
  const upstream = await connectPair();
  const connection = createState().accept(client.far)!;
  connection.addUpstream(upstream.far);
  connection.closeWith(upstream.far);
  client.far.write(Buffer.alloc(MANY_BYTES));
  upstream.far.destroy();
  await new Promise((resolve) => upstream.far.once("close", resolve));
  expect(await readAll(client.near)).toBe(MANY_BYTES);
});

test("delivers to the server everything that the client sent before it closed", async () => {
  const client = await connectPair();
  const upstream = await connectPair();
  const connection = createState().accept(client.far)!;
  connection.addUpstream(upstream.far);
  upstream.far.write(Buffer.alloc(MANY_BYTES));
  client.far.destroy();
  await new Promise((resolve) => client.far.once("close", resolve));
  expect(await readAll(upstream.near)).toBe(MANY_BYTES);
  expect(connection.ended).toBe(true);
});

test("an unexpected error ends only the connection in which it occurred", async () => {
  let faults = 0;
  const refused = () => {
    if (faults++ === 0) throw new Error("unexpected failure");
  };
  const { proxy, session } = await createTestEgress({ domains: [], refused });
  expect(await new TestClient(proxy).send("GET http://a.test/ HTTP/1.1\r\n\r\n").readToEnd()).toBe("");
  expect(await new TestClient(proxy).send("GET http://b.test/ HTTP/1.1\r\n\r\n").readToEnd()).toContain(
    "403",
  );
  expect(session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "a.test domain.not_allowed",
    "a.test request.malformed",
    "b.test domain.not_allowed",
  ]);
});
