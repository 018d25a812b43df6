/**
 * The checks of `vai.rpc.v1`. Checks of exports with the same grant share a process until a check fails or the last
 * protocol check shuts the process down; each of the ENDING_CHECKS runs in its own. An exit or a missing answer breaks
 * the rule of the check that was running.
 */
import { type JsonObject, OPS, WIRE_LIMITS } from "@backplane/contract";
import { encodeContentLength } from "@backplane/wire";
import { RuleViolation } from "./rule-violation.ts";
import type { VaiRule } from "./rules.ts";
import { buildCallBody, callExport, checkResult, type TestedExport, waitForAnswer } from "./vai-calls.ts";
import type { VaiTestSession } from "./vai-test-session.ts";

export interface VaiCheck {
  rule: VaiRule;
  /** Further rules that hold if the check passes. */
  covers?: readonly VaiRule[];
  /** Null if the check does not apply to this export. */
  run(session: VaiTestSession, tested: TestedExport): Promise<void> | null;
}

/** Much longer than a busy machine delays a frame, so a plugin can tell this deadline from one that has just passed. */
const PASSED_BY_MS = 3_600_000;

/** Run for each export. */
export const EXPORT_CHECKS: readonly VaiCheck[] = [
  {
    rule: "response.answers",
    covers: ["response.shape", "response.status", "result.shape"],
    run: (session, tested) =>
      tested.input === null ? null : callExport(session, tested).then((frame) => checkResult(tested, frame)),
  },
  {
    rule: "input.invalid",
    // The gateway compares input with the schema, but a schema rarely describes every constraint.
    run: async (session, tested) => {
      const body = await buildCallBody(session, tested);
      await waitForAnswer(
        session,
        tested,
        session.request(OPS[tested.exported.kind], { ...body, ...UNUSABLE_FIELDS[tested.exported.kind] })
          .response,
      );
    },
  },
  {
    rule: "deadline.passed",
    run: async (session, tested) => {
      await callExport(session, tested, {
        context: { deadline_at: new Date(Date.now() - PASSED_BY_MS).toISOString() },
      });
    },
  },
  { rule: "cancel.answers", run: cancelCall },
];

/** Run once, with the first export. */
export const PROTOCOL_CHECKS: readonly VaiCheck[] = [
  {
    rule: "read.utf8",
    run: async (session, tested) => {
      await callExport(session, tested, { context: { trace_id: "tr_žluťoučký kůň 🐎" } });
      await callExport(session, tested);
    },
  },
  {
    rule: "read.split",
    run: async (session, tested) => {
      await callExport(session, tested, {}, (frame) => {
        const bytes = Buffer.from(encodeContentLength(frame));
        const cuts = [9, bytes.indexOf("\r\n\r\n") + 2, Math.floor(bytes.length / 2)];
        return [0, ...cuts].map((from, index) => bytes.subarray(from, cuts[index] ?? bytes.length));
      });
    },
  },
  {
    rule: "read.headers",
    run: async (session, tested) => {
      await callExport(session, tested, {}, (frame) => {
        const body = JSON.stringify(frame);
        const length = `CONTENT-LENGTH: ${Buffer.byteLength(body)}`;
        return [`Content-Type: application/json\r\n${length}\r\n\r\n${body}`];
      });
    },
  },
  { rule: "request.concurrent", covers: ["response.once", "response.id"], run: callConcurrently },
  {
    rule: "read.large",
    run: async (session, tested) => {
      const body = await buildCallBody(session, tested);
      const padding = WIRE_LIMITS.frame_bytes - Buffer.byteLength(JSON.stringify(body)) - 500;
      const large = {
        ...body,
        context: { ...(body.context as JsonObject), trace_id: `tr_${"x".repeat(padding)}` },
      };
      await waitForAnswer(session, tested, session.request(OPS[tested.exported.kind], large).response);
    },
  },
  {
    rule: "request.unknown-op",
    run: async (session, tested) => {
      const body = await buildCallBody(session, tested);
      await requireFailure(
        "request.unknown-op",
        session,
        tested,
        session.request("tool.unknown", body).response,
      );
    },
  },
  {
    rule: "request.unknown-export",
    run: async (session, tested) => {
      const body = { ...(await buildCallBody(session, tested)), export_id: "no_such_export" };
      const { response } = session.request(OPS[tested.exported.kind], body);
      await requireFailure("request.unknown-export", session, tested, response);
    },
  },
  {
    rule: "cancel.unknown",
    run: async (session, tested) => {
      const { frame, response } = session.prepare(
        OPS[tested.exported.kind],
        await buildCallBody(session, tested),
      );
      session.send({ protocol: "vai.rpc.v1", type: "cancel", request_id: "req_none", reason: "user" });
      await session.pause();
      session.send(frame);
      await waitForAnswer(session, tested, response);
    },
  },
  {
    rule: "shutdown.exits",
    run: async (session) => {
      session.send({ protocol: "vai.rpc.v1", type: "shutdown" });
      const { code, message } = await session.waitForExit("shutdown.exits", "the shutdown");
      if (code !== 0)
        throw new RuleViolation("shutdown.exits", `The process did not exit with code 0. ${message}`);
    },
  },
];

/** Each runs in a separate process, after the hello. */
export const ENDING_CHECKS: readonly VaiCheck[] = [
  {
    rule: "read.invalid",
    run: async (session) => {
      session.sendRaw("Content-Length: 9\r\n\r\nnot JSON!", "Content-Length: 9, not JSON!");
      await session.waitForExit("read.invalid", "a frame that is not JSON");
    },
  },
  {
    rule: "read.oversized",
    run: async (session) => {
      const bytes = WIRE_LIMITS.frame_bytes + 1;
      session.sendRaw(`Content-Length: ${bytes}\r\n\r\n{"`, `Content-Length: ${bytes}, {"`);
      await session.waitForExit("read.oversized", "the header of a frame that is too large");
    },
  },
  {
    rule: "stdin.end",
    run: async (session) => {
      session.closeInput();
      await session.waitForExit("stdin.end", "the end of stdin");
    },
  },
];

/** Fields that replace those of a valid request. */
const UNUSABLE_FIELDS: Record<TestedExport["exported"]["kind"], JsonObject> = {
  tool: { input: [null] },
  hook: { event: { type: "no.such.event" } },
  compactor: { source: { chain_id: "ch_test", projection: { transport: "inline" } } },
  harness: { trigger: { type: "user_request" } },
};

async function cancelCall(session: VaiTestSession, tested: TestedExport): Promise<void> {
  const { exported } = tested;
  const { id, response } = session.request(OPS[exported.kind], await buildCallBody(session, tested));
  session.send({ protocol: "vai.rpc.v1", type: "cancel", request_id: id, reason: "user" });
  const { cancel_grace_ms } = session.limits;
  await session.within(response, cancel_grace_ms, () =>
    session.missingAnswer(
      "cancel.answers",
      `${exported.id} did not answer within ${cancel_grace_ms} ms after a cancel`,
    ),
  );
}

/** Sends three requests in one write. */
async function callConcurrently(session: VaiTestSession, tested: TestedExport): Promise<void> {
  const requests = [];
  for (let count = 0; count < 3; count++)
    requests.push(session.prepare(OPS[tested.exported.kind], await buildCallBody(session, tested)));
  session.sendRaw(
    requests.map(({ frame }) => encodeContentLength(frame)).join(""),
    requests.map(({ frame }) => JSON.stringify(frame).slice(0, 120)).join(" "),
  );
  await Promise.all(requests.map(({ response }) => waitForAnswer(session, tested, response)));
}

async function requireFailure(
  rule: VaiRule,
  session: VaiTestSession,
  tested: TestedExport,
  response: Promise<JsonObject>,
): Promise<void> {
  const frame = await waitForAnswer(session, tested, response);
  const { status } = (frame.body ?? {}) as JsonObject;
  if (frame.ok === true && (status === "succeeded" || status === "ack"))
    throw new RuleViolation(rule, `The request was answered with status ${status}.`, frame);
}
