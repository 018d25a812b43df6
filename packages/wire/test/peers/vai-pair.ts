/** The host over the in-memory transport, with a plugin that is scripted frame by frame. */
import type { BackplaneError, JsonObject } from "@backplane/contract";
import {
  ContentLengthDecoder,
  encodeContentLength,
  frameLimits,
  memoryTransportPair,
  type Transport,
  VaiHost,
  type VaiHostOptions,
  type VaiViolation,
} from "../../src/index.ts";

export const HELLO = {
  protocol: "vai.rpc.v1",
  type: "hello",
  role: "plugin",
  plugin: { package_id: "acme/devkit", version: "0.1.0" },
};

export const BODY = { export_id: "jira_search", context: { invocation_id: "inv_1" }, input: { query: "x" } };

export const noop = () => undefined;

interface Pair {
  host: VaiHost;
  plugin: Transport;
  received: JsonObject[];
  violations: VaiViolation[];
  failures: BackplaneError[];
  sendFrames: (...frames: object[]) => Promise<void>;
}

export function createPair(options: Partial<VaiHostOptions> = {}): Pair {
  const [host_end, plugin] = memoryTransportPair();
  const received: JsonObject[] = [];
  const violations: VaiViolation[] = [];
  const failures: BackplaneError[] = [];
  const decoder = new ContentLengthDecoder(frameLimits(), (frame) => received.push(frame), noop);
  plugin.onData((chunk) => decoder.push(chunk));
  const host = new VaiHost({
    transport: host_end,
    identity: { package_id: "acme/devkit", version: "0.1.0" },
    host: { name: "backplane", version: "0.1.0" },
    onViolation: (violation) => violations.push(violation),
    onFailure: (error) => failures.push(error),
    ...options,
  });
  const sendFrames = async (...frames: object[]): Promise<void> => {
    plugin.write(frames.map((frame) => encodeContentLength(frame)).join(""));
    await nextTurns();
  };
  return { host, plugin, received, violations, failures, sendFrames };
}

export async function nextTurns(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise(setImmediate);
}

export async function createReadyPair(options: Partial<VaiHostOptions> = {}): Promise<Pair> {
  const started = createPair(options);
  const hello = started.host.hello();
  await started.sendFrames(HELLO);
  await hello;
  started.received.length = 0;
  return started;
}

export const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "resolved",
    (error: { code: unknown }) => error.code,
  );

export const response = (id: string, rest: object = { ok: true, body: { status: "succeeded" } }) => ({
  protocol: "vai.rpc.v1",
  type: "response",
  id,
  ...rest,
});

export const event = (request_id: string, inner: object = { type: "progress" }) => ({
  protocol: "vai.rpc.v1",
  type: "event",
  request_id,
  event: inner,
});
