/** The host against a plugin that is scripted frame by frame over the in-memory transport. */
import { BackplaneError, OPS, TERMINAL_STATUSES } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { BODY, codeOf, createReadyPair, event, nextTurns, noop, response } from "./vai-pair.ts";

describe("requests", () => {
  verifies("vai.request", "sends id, op and body with export_id and context for each op", async () => {
    const { host, received, sendFrames } = await createReadyPair();
    for (const op of Object.values(OPS)) {
      const answer = host.request(`req_${op}`, op, BODY, noop);
      await nextTurns();
      expect(received.pop()).toEqual({
        protocol: "vai.rpc.v1",
        type: "request",
        id: `req_${op}`,
        op,
        body: BODY,
      });
      await sendFrames(response(`req_${op}`));
      expect(await answer).toMatchObject({ ok: true });
    }
  });

  verifies(
    "vai.event",
    "delivers events in order, before the response, only to their own request",
    async () => {
      const { host, sendFrames } = await createReadyPair();
      const delivered: unknown[] = [];
      const first = host
        .request("req_1", OPS.tool, BODY, (each) => delivered.push(["1", each.n]))
        .then(() => delivered.push("1 done"));
      const second = host
        .request("req_2", OPS.tool, BODY, (each) => delivered.push(["2", each.n]))
        .then(() => delivered.push("2 done"));
      const progress = (n: number) => ({ type: "progress", n });
      await sendFrames(event("req_1", progress(1)), event("req_2", progress(2)), event("req_1", progress(3)));
      expect(delivered).toEqual([
        ["1", 1],
        ["2", 2],
        ["1", 3],
      ]);
      await sendFrames(event("req_1", progress(4)), response("req_1"), response("req_2"));
      await Promise.all([first, second]);
      expect(delivered.slice(3)).toEqual([["1", 4], "1 done", "2 done"]);
    },
  );

  verifies("vai.status", "accepts the four statuses, and ack only from a hook", async () => {
    const { host, sendFrames } = await createReadyPair();
    for (const op of Object.values(OPS)) {
      for (const status of [...TERMINAL_STATUSES, "ack", "done", "", null, 1]) {
        const id = `req_${op}_${status}`;
        const answer = codeOf(host.request(id, op, BODY, noop));
        await sendFrames(response(id, { ok: true, body: { status } }));
        const known =
          TERMINAL_STATUSES.some((each) => each === status) || (status === "ack" && op === OPS.hook);
        expect(await answer, id).toBe(known ? "resolved" : "malformed_response");
      }
    }
  });

  const error = { code: "protocol.invalid_frame", message: "missing body" };
  const malformed: [string, object][] = [
    ["ok:true without a body", { ok: true }],
    ["ok:true without a status", { ok: true, body: {} }],
    ["ok:true with an error only", { ok: true, error }],
    ["ok:false with succeeded", { ok: false, error, body: { status: "succeeded" } }],
    ["ok:false without an error", { ok: false }],
    ["ok:false without a message", { ok: false, error: { code: "x" } }],
    ["no ok", { body: { status: "succeeded" } }],
    ["ok as a string", { ok: "true", body: { status: "succeeded" } }],
    ["another protocol", { protocol: "vai.rpc.v2", ok: true, body: { status: "succeeded" } }],
  ];
  for (const [name, rest] of malformed) {
    verifies("vai.response", `${name} fails only its own call with malformed_response`, async () => {
      const { host, failures, sendFrames } = await createReadyPair();
      const first = codeOf(host.request("req_1", OPS.tool, BODY, noop));
      const second = codeOf(host.request("req_2", OPS.tool, BODY, noop));
      await sendFrames(response("req_1", rest), response("req_2"));
      expect([await first, await second]).toEqual(["malformed_response", "resolved"]);
      expect(failures).toEqual([]);
    });
  }

  verifies(
    "vai.response",
    "distinguishes a protocol failure (ok:false) from a failed call (ok:true with status failed)",
    async () => {
      const { host, sendFrames } = await createReadyPair();
      const protocol_failure = host.request("req_1", OPS.tool, BODY, noop);
      const failed_call = host.request("req_2", OPS.tool, BODY, noop);
      await sendFrames(
        response("req_1", { ok: false, error }),
        response("req_2", { ok: true, body: { status: "failed" } }),
      );
      expect(await protocol_failure).toMatchObject({ ok: false, error });
      expect(await failed_call).toMatchObject({ ok: true, body: { status: "failed" } });
    },
  );
});

describe("unmatched frames", () => {
  verifies(
    "wire.reply.once",
    "accepts the first reply and counts second, unknown and late replies",
    async () => {
      const { host, violations, failures, sendFrames } = await createReadyPair();
      const answer = host.request("req_1", OPS.tool, BODY, noop);
      await sendFrames(response("req_1", { ok: true, body: { status: "succeeded", result: 1 } }));
      await sendFrames(
        response("req_1", { ok: true, body: { status: "failed", result: 2 } }),
        event("req_1"),
      );
      await sendFrames(response("req_stranger"), event("req_stranger"));
      expect(await answer).toMatchObject({ body: { status: "succeeded", result: 1 } });

      const abandoned = codeOf(host.request("req_2", OPS.tool, BODY, noop));
      host.cancel("req_2", "deadline_exceeded");
      host.abandon("req_2", new BackplaneError("timeout"));
      expect(await abandoned).toBe("timeout");
      await sendFrames(response("req_2"));
      expect(violations).toEqual([
        { kind: "second_reply", request_id: "req_1" },
        { kind: "event_after_reply", request_id: "req_1" },
        { kind: "unknown_id" },
        { kind: "unknown_id" },
        { kind: "late_reply", request_id: "req_2" },
      ]);
      expect({ failures, inFlight: host.inFlight }).toEqual({ failures: [], inFlight: 0 });
    },
  );

  verifies(
    "vai.cancel",
    "a reply within the grace period settles the cancelled call without a violation",
    async () => {
      const { host, received, violations, sendFrames } = await createReadyPair();
      const answer = host.request("req_1", OPS.tool, BODY, noop);
      host.cancel("req_1", "user");
      host.cancel("req_unknown", "user");
      await nextTurns();
      expect(received.slice(1)).toEqual([
        { protocol: "vai.rpc.v1", type: "cancel", request_id: "req_1", reason: "user" },
      ]);
      await sendFrames(response("req_1", { ok: true, body: { status: "cancelled" } }));
      expect(await answer).toMatchObject({ body: { status: "cancelled" } });
      expect(violations).toEqual([]);
    },
  );

  test("counts frames of an unknown type or without required fields, and otherwise ignores them", async () => {
    const { host, violations, failures, sendFrames } = await createReadyPair();
    const bare = { protocol: "vai.rpc.v1" };
    // No request is in flight, so these frames cannot belong to one.
    await sendFrames({ ...bare, type: "response" }, { ...bare, type: "response", id: 7 });
    const answer = host.request("req_1", OPS.tool, BODY, noop);
    await sendFrames({ ...bare, type: "request", id: "x", op: "tool.invoke", body: {} }, bare);
    await sendFrames({ ...bare, type: "event" }, event("req_1", { type: "" }));
    await sendFrames({ ...bare, type: "event", request_id: "req_1" }, { ...bare, type: "__proto__" });
    expect(violations.every((violation) => violation.kind === "unexpected_frame")).toBe(true);
    expect(violations).toHaveLength(8);
    await sendFrames(response("req_1"));
    expect(await answer).toMatchObject({ ok: true });
    expect(failures).toEqual([]);
  });

  verifies(
    "wire.contradiction",
    "a response without an id fails every request in flight and ends the connection",
    async () => {
      for (const id of [undefined, null, 7, "", ["req_1"], { id: "req_1" }]) {
        const { host, failures, sendFrames } = await createReadyPair();
        const answers = ["req_1", "req_2"].map((name) => host.request(name, OPS.tool, BODY, noop));
        const codes = Promise.all(
          answers.map((answer) => answer.catch((error: { code: string }) => error.code)),
        );
        await sendFrames({ ...response("req_1"), id } as never);
        expect(await codes).toEqual(["malformed_response", "malformed_response"]);
        expect(failures.map(({ code }) => code)).toEqual(["malformed_response"]);
      }
    },
  );

  test("accepts ids that are names of Object.prototype properties", async () => {
    const { host, violations, sendFrames } = await createReadyPair();
    await sendFrames(response("constructor"), event("toString"), response("__proto__"));
    expect(violations).toEqual([{ kind: "unknown_id" }, { kind: "unknown_id" }, { kind: "unknown_id" }]);
    const answer = host.request("__proto__", OPS.tool, BODY, noop);
    await sendFrames(response("__proto__"));
    expect(await answer).toMatchObject({ ok: true });
  });
});

describe("host", () => {
  test("rejects an oversized request, one that cannot be serialized and one whose id is in use, without sending them", async () => {
    const { host, received, failures } = await createReadyPair({ limits: { frame_bytes: 2_000 } });
    expect(await codeOf(host.request("req_1", OPS.tool, { ...BODY, input: "x".repeat(2_000) }, noop))).toBe(
      "frame_too_large",
    );
    expect(await codeOf(host.request("req_2", OPS.tool, { ...BODY, input: 1n }, noop))).toBe("internal");
    void codeOf(host.request("req_3", OPS.tool, BODY, noop));
    expect(await codeOf(host.request("req_3", OPS.tool, BODY, noop))).toBe("internal");
    await nextTurns();
    expect(received.map((frame) => frame.id)).toEqual(["req_3"]);
    expect(failures).toEqual([]);
  });

  test("an event listener that throws fails only its own call", async () => {
    const { host, sendFrames } = await createReadyPair();
    const failing = codeOf(
      host.request("req_1", OPS.tool, BODY, () => {
        throw new Error("watcher broke");
      }),
    );
    const other_code = codeOf(host.request("req_2", OPS.tool, BODY, noop));
    await sendFrames(event("req_1"), event("req_2"), response("req_2"));
    expect([await failing, await other_code]).toEqual(["internal", "resolved"]);
  });

  verifies(
    "vai.shutdown",
    "shutdown sends its frame, rejects new calls and still accepts replies",
    async () => {
      const { host, received, sendFrames } = await createReadyPair();
      const answer = host.request("req_1", OPS.tool, BODY, noop);
      host.shutdown();
      await nextTurns();
      expect(received.at(-1)).toEqual({ protocol: "vai.rpc.v1", type: "shutdown" });
      expect(await codeOf(host.request("req_2", OPS.tool, BODY, noop))).toBe("crashed");
      await sendFrames(response("req_1"));
      expect(await answer).toMatchObject({ ok: true });
    },
  );
});
