/** Frames of observed bindings, as observers see them. */
import type { ObservedOutput } from "@backplane/ports";
import { encodeContentLength, memoryTransportPair } from "@backplane/wire";
import { expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/index.ts";
import { FrameTaps } from "../../src/processes/frame-taps.ts";
import { requestOf } from "../support/request.ts";

const SECRET = "sk-live-3f9a1c7e5b2d";
const TOKEN = "vai-token-8c1f2e";

function createTap() {
  const taps = new FrameTaps();
  const outputs: ObservedOutput[] = [];
  const request = requestOf({});
  const stop = taps.observe([request.binding_id], (output) => outputs.push(output));
  return { taps, request, outputs, stop, tap: taps.open(request, DEFAULT_LIMITS) };
}

test("shows the frames of both directions and no secret of the call", async () => {
  const { tap, outputs } = createTap();
  const [host, plugin] = memoryTransportPair();
  const wrapped = tap!.wrap(host);
  const received: string[] = [];
  wrapped.onData((chunk) => received.push(Buffer.from(chunk).toString()));
  const context = { secrets: { api_key: SECRET }, gateway: { delegation_token: TOKEN } };
  wrapped.write(encodeContentLength({ type: "request", id: "r1", body: { context } }));
  const echoed = encodeContentLength({
    type: "response",
    id: "r1",
    body: { result: `${SECRET} ${btoa(SECRET)} ${TOKEN}` },
  });
  plugin.write(echoed);
  tap!.showStderr(Buffer.from(`using ${SECRET}\n`));
  await expect.poll(() => outputs.length).toBe(3);
  expect(outputs.map(({ from, kind }) => `${from} ${kind}`).sort()).toEqual([
    "host frame",
    "plugin frame",
    "plugin stderr",
  ]);
  const frames_text = JSON.stringify(outputs);
  for (const secret of [SECRET, btoa(SECRET), TOKEN]) expect(frames_text).not.toContain(secret);
  expect(frames_text).toContain("[redacted]");
  // The plugin and the gateway still get what was sent.
  expect(received.join("")).toBe(echoed);
});

test("shows output that is not a frame", async () => {
  const { tap, outputs } = createTap();
  const [host, plugin] = memoryTransportPair();
  tap!.wrap(host).onData(() => {});
  plugin.write("starting the server\n");
  await expect.poll(() => outputs).toHaveLength(1);
  expect(outputs[0]).toMatchObject({ kind: "stray_output", from: "plugin", text: "starting the server" });
});

test("taps only processes that start while their binding is observed", () => {
  const { taps, request, stop } = createTap();
  expect(taps.open({ ...request, binding_id: "bind_other" }, DEFAULT_LIMITS)).toBeNull();
  expect(taps.open(null, DEFAULT_LIMITS)).toBeNull();
  stop();
  expect(taps.open(request, DEFAULT_LIMITS)).toBeNull();
});
