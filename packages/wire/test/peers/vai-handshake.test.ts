/** The handshake: the first frames of both sides. */
import { OPS } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { BODY, codeOf, createPair, createReadyPair, HELLO, nextTurns, noop, response } from "./vai-pair.ts";

describe("hello", () => {
  verifies("vai.hello", "sends the host's hello first and no request before a valid hello", async () => {
    const { host, received, sendFrames } = createPair();
    expect(await codeOf(host.request("req_0", OPS.tool, BODY, noop))).toBe("handshake_failed");
    const hello = host.hello();
    await nextTurns();
    expect(received).toEqual([
      { protocol: "vai.rpc.v1", type: "hello", role: "host", host: { name: "backplane", version: "0.1.0" } },
    ]);
    expect(await codeOf(host.request("req_1", OPS.tool, BODY, noop))).toBe("handshake_failed");
    await sendFrames(HELLO);
    expect(await hello).toEqual(HELLO);
    expect(received).toHaveLength(1);
  });

  test("accepts a hello that the plugin sends before the host's", async () => {
    const { host, sendFrames } = createPair();
    await sendFrames(HELLO);
    expect(await host.hello()).toEqual(HELLO);
  });

  const variant = (change: object): object => ({ ...HELLO, ...change });
  const other_identities: [string, object, string][] = [
    [
      "another package",
      variant({ plugin: { package_id: "acme/other", version: "0.1.0" } }),
      "handshake_failed",
    ],
    [
      "another version",
      variant({ plugin: { package_id: "acme/devkit", version: "0.1.1" } }),
      "handshake_failed",
    ],
  ];
  for (const [name, frame, code] of other_identities) {
    verifies("vai.hello.identity", `rejects ${name} and sends no request`, async () => {
      const { host, received, failures, sendFrames } = createPair();
      const hello = codeOf(host.hello());
      await sendFrames(frame);
      expect(await hello).toBe(code);
      expect(failures[0]).toMatchObject({ code, details: { reason: "identity" } });
      expect(await codeOf(host.request("req_1", OPS.tool, BODY, noop))).toBe(code);
      await nextTurns();
      expect(received.map((each) => each.type)).toEqual(["hello"]);
    });
  }

  const invalid_hellos: [string, object, string][] = [
    ["another protocol", variant({ protocol: "vai.rpc.v2" }), "protocol_version_mismatch"],
    ["no protocol", variant({ protocol: undefined }), "handshake_failed"],
    ["the wrong role", variant({ role: "host" }), "handshake_failed"],
    ["the wrong type", variant({ type: "event" }), "handshake_failed"],
    ["a response first", response("req_1"), "handshake_failed"],
    ["no plugin", variant({ plugin: undefined }), "handshake_failed"],
    [
      "a version that is a number",
      variant({ plugin: { package_id: "acme/devkit", version: 1 } }),
      "handshake_failed",
    ],
  ];
  for (const [name, frame, code] of invalid_hellos) {
    verifies("vai.hello.version", `rejects ${name} with ${code}`, async () => {
      const { host, failures, sendFrames } = createPair();
      const hello = codeOf(host.hello());
      await sendFrames(frame);
      expect(await hello).toBe(code);
      expect(failures.map((error) => error.code)).toEqual([code]);
    });
  }

  verifies(
    "vai.hello.version",
    "closes the connection and fails every pending call after a second hello",
    async () => {
      const { host, failures, sendFrames } = await createReadyPair();
      const pending = codeOf(host.request("req_1", OPS.tool, BODY, noop));
      await sendFrames(HELLO);
      expect(await pending).toBe("handshake_failed");
      expect(failures.map((error) => error.code)).toEqual(["handshake_failed"]);
    },
  );
});
