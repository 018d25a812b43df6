import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../../test/support/system-clock.ts";
import { publicOnly } from "../../../src/egress/destinations/address.ts";
import { allowList } from "../../../src/egress/destinations/allow-list.ts";
import { RefusalRecord } from "../../../src/egress/destinations/refusals.ts";
import { Border } from "../../../src/egress/proxy/egress-state.ts";
import { DEFAULT_EGRESS_LIMITS } from "../../../src/egress/proxy/limits.ts";
import { openRig, Talk } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

const MUCH = 24 * 1024 * 1024;

function openBorder(): Border {
  const policy = {
    allowed: allowList([]),
    operator_allows: new Set<string>(),
    gateway: { names: new Set<string>(), reachable: false },
    resolve: () => Promise.resolve([]),
    forbidden: publicOnly,
  };
  const record = new RefusalRecord(10, systemClock, () => {});
  const border = new Border(policy, DEFAULT_EGRESS_LIMITS, systemClock, record, false);
  onTestFinished(() => border.close());
  return border;
}

/** Both ends of a connection; the near one reads only when told to. */
async function pair(): Promise<{ near: Socket; far: Socket }> {
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

test("a client is given all that came before the other side left", async () => {
  const client = await pair();
  const outside = await pair();
  const passage = openBorder().enter(client.far)!;
  passage.bring(outside.far);
  passage.follow(outside.far);
  client.far.write(Buffer.alloc(MUCH));
  outside.far.destroy();
  await new Promise((resolve) => outside.far.once("close", resolve));
  expect(await readAll(client.near)).toBe(MUCH);
});

test("the other side is told all that a client said before it left", async () => {
  const client = await pair();
  const outside = await pair();
  const passage = openBorder().enter(client.far)!;
  passage.bring(outside.far);
  outside.far.write(Buffer.alloc(MUCH));
  client.far.destroy();
  await new Promise((resolve) => client.far.once("close", resolve));
  expect(await readAll(outside.near)).toBe(MUCH);
  expect(passage.ended).toBe(true);
});

test("a fault on the way ends that connection alone", async () => {
  let faults = 0;
  const refused = () => {
    if (faults++ === 0) throw new Error("no room for it");
  };
  const { proxy, session } = await openRig({ domains: [], refused });
  expect(await new Talk(proxy).say("GET http://a.test/ HTTP/1.1\r\n\r\n").rest()).toBe("");
  expect(await new Talk(proxy).say("GET http://b.test/ HTTP/1.1\r\n\r\n").rest()).toContain("403");
  expect(session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "a.test domain.not_allowed",
    "a.test request.malformed",
    "b.test domain.not_allowed",
  ]);
});
