/** A harness from the request of a person to the end of its run. */
import type { BusEvent, JsonObject } from "@backplane/contract";
import { ended } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../loop/test-session.ts";
import { harnessPackage, runHarness, scriptHarness } from "./test-harness.ts";

const START = { session_id: "s1", input: { text: "fix the bug" }, harness: { export_id: "triage" } };

describe("a run of a harness", () => {
  verifies("harness.contract", "accepts every attachment that a run without a harness accepts", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const inputs: unknown[] = [];
    scriptHarness(fixture, async ({ body }) => {
      inputs.push((body.trigger as JsonObject).input);
      return { summary: { text: "fixed it" } };
    });
    const attachments: JsonObject[] = [
      { name: "log.txt", text: "line 4 fails" },
      { name: "a.pdf", mime_type: "application/pdf", data: "JVBERi0x" },
      { name: "b.png", media_type: "image/png", data: "iVBORw0KGgo=" },
      { name: "c" },
      {},
      { type: "resource_link", uri: "https://example.com", name: "d" },
    ];
    const input = { text: "/say fix it", attachments };
    const plain = await fixture.kernel.runs.start(user, { session_id: "s2", input });
    expect((await plain.settled).status).toBe("completed");
    const ticket = await fixture.kernel.runs.start(user, { ...START, input });
    expect((await ticket.settled).status).toBe("completed");
    const resource = { uri: "file:///a.pdf", mimeType: "application/pdf", blob: "JVBERi0x" };
    expect(inputs).toEqual([
      [
        { type: "text", text: "/say fix it" },
        { type: "text", name: "log.txt", text: "line 4 fails" },
        { type: "resource", name: "a.pdf", mime_type: "application/pdf", resource },
        { type: "image", name: "b.png", media_type: "image/png", data: "iVBORw0KGgo=" },
        { type: "file", name: "c" },
        { type: "file" },
        { type: "resource_link", uri: "https://example.com", name: "d" },
      ],
    ]);
    // The tape keeps them as they were sent.
    const message = (await fixture.tape()).find(({ payload }) => payload.attachments !== undefined);
    expect(message!.payload.attachments).toEqual(attachments);
  });

  verifies(
    "harness.contract",
    "sends target, trigger and policy, links child runs and ends with the summary on the tape",
    async () => {
      const fixture = await createTestSession();
      await fixture.bind(harnessPackage());
      const bodies: JsonObject[] = [];
      let child = "";
      scriptHarness(fixture, async ({ body, run, event }) => {
        bodies.push(body);
        event({ type: "progress", message: "looking" });
        const { id, ticket } = await run("plan", "s1", "/say planned");
        child = id;
        await ticket!.settled;
        return { summary: { text: "fixed it" }, checkpoint: { kind: "checkpoint", data: 1 }, artifacts: [] };
      });
      const harness = { export_id: "triage", policy: { max_child_runs: 2, max_depth: 1 } };
      const ticket = await fixture.kernel.runs.start(user, { ...START, harness });
      expect(ticket.run).toMatchObject({ status: "running", strategy: "harness:triage", trigger: "api" });
      const done = await ticket.settled;
      const { execution_id, invocation_id } = done.harness!;
      expect(bodies).toEqual([
        {
          mode: "start",
          target: { session_id: "s1", chain_id: done.chain_id, execution_id },
          trigger: { type: "user_request", input: [{ type: "text", text: "fix the bug" }] },
          policy: {
            max_depth: 1,
            max_child_runs: 2,
            max_steps: 300,
            max_compactions: 10,
            allow_compaction: true,
          },
        },
      ]);
      expect(done).toMatchObject({ status: "completed", output: { content: "fixed it" }, error: null });
      expect(await fixture.kernel.runs.get(user, child)).toMatchObject({
        status: "completed",
        trigger: "harness",
        parent_run_id: done.id,
        requested_by: invocation_id,
      });
      const invocation = await fixture.kernel.invocations.get(user, invocation_id);
      expect(invocation).toMatchObject({
        session_id: "s1",
        run_id: done.id,
        execution_id,
        status: "succeeded",
      });
      const messages = (await fixture.tape()).filter(({ kind }) => kind === "message");
      expect(messages.map(({ payload }) => payload.content)).toEqual([
        "fix the bug",
        "/say planned",
        "planned",
        "fixed it",
      ]);
      expect(await fixture.kernel.runs.getExecution(user, execution_id)).toMatchObject({
        status: "succeeded",
        used: { child_runs: 1, steps: 1, compactions: 0 },
        checkpoint: { kind: "checkpoint", data: 1 },
      });
      await until(() => fixture.events.some(({ kind }) => kind === "x.harness.ended"));
      const harness_events = fixture.events.filter(({ kind }) => kind.startsWith("x.harness."));
      expect(harness_events.map(({ kind, session_id }: BusEvent) => [kind, session_id])).toEqual([
        ["x.harness.started", "s1"],
        ["x.harness.event", "s1"],
        ["x.harness.ended", "s1"],
      ]);
      expect(harness_events[1]!.payload).toMatchObject({ run_id: done.id, event: { message: "looking" } });
    },
  );

  verifies(
    "contract.malformed",
    "fails with malformed_response on an invalid result and changes only its own record",
    async () => {
      const fixture = await createTestSession();
      await fixture.bind(harnessPackage());
      const results = [
        { checkpoint: { kind: "checkpoint" } },
        { checkpoint: "12" },
        { summary: "text" },
        { summary: { text: "fine" }, artifacts: {} },
      ];
      for (const [n, result] of results.entries()) {
        scriptHarness(fixture, async () => result as never);
        const run = await (await fixture.kernel.runs.start(user, { ...START, session_id: `m${n}` })).settled;
        expect(run, JSON.stringify(result)).toMatchObject({
          status: "failed",
          error: { code: "malformed_response" },
          output: { content: "" },
        });
        const { checkpoint } = await fixture.kernel.runs.getExecution(user, run.harness!.execution_id);
        expect(checkpoint).toBeNull();
        const messages = (await fixture.tape(`m${n}`)).filter(({ payload }) => payload.role === "assistant");
        expect(messages).toEqual([]);
      }
    },
  );

  test("refuses a harness while a turn of its session is running", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const { run_id } = await fixture.kernel.sessions.sendMessage(
      user,
      { session_id: "s1" },
      { text: "/slow 60000" },
    );
    await expect(fixture.kernel.runs.start(user, START)).rejects.toMatchObject({ code: "session.busy" });
    expect(fixture.runner.requests).toEqual([]);
    await fixture.kernel.sessions.interrupt(user, { session_id: "s1" });
    await until(async () => (await fixture.kernel.runs.get(user, run_id)).status !== "running");
  });

  test("ends its child runs when it is cancelled", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    let child = "";
    scriptHarness(fixture, async ({ run, cancelled }) => {
      child = (await run("slow", "s2", "/slow 5000")).id;
      await cancelled;
      return {};
    });
    const { run } = await fixture.kernel.runs.start(user, START);
    await until(() => child !== "");
    expect(await fixture.kernel.runs.cancel(user, run.id)).toMatchObject({ status: "cancelled" });
    await until(async () => (await fixture.kernel.runs.get(user, child)).status !== "running");
    expect(await fixture.kernel.runs.get(user, child)).toMatchObject({ status: "cancelled" });
  });

  test("starts a harness only once for the same Idempotency-Key", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    scriptHarness(fixture, async () => ({ summary: { text: "once" } }));
    const first = await fixture.kernel.runs.startOnce(user, START, "k", "d");
    await first.ticket!.settled;
    const again = await fixture.kernel.runs.startOnce(user, START, "k", "d");
    expect(again).toEqual({ id: first.id, entry_id: first.entry_id, ticket: null });
    expect(fixture.runner.requests).toHaveLength(1);
  });

  test("refuses modes, targets, limits and fields that the contract does not define", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    for (const [input, path] of [
      [{ mode: "restart" }, "/mode"],
      [{ mode: "resume" }, "/target/execution_id"],
      [{ target: { execution_id: "exec_1" } }, "/target/execution_id"],
      [{ policy: { max_child_runs: -1 } }, "/policy/max_child_runs"],
      [{ policy: { max_runs: 1 } }, "/policy"],
      [{ trigger: { input: [] } }, "/trigger/type"],
      [{ checkpoint: {} }, ""],
    ] as [JsonObject, string][]) {
      await expect(fixture.call({ export_id: "triage", input }, admin), path).rejects.toMatchObject({
        code: "input.invalid",
        details: { issues: [expect.objectContaining({ path })] },
      });
    }
    const gone = { mode: "resume", target: { execution_id: "exec_none" } };
    await expect(fixture.call({ export_id: "triage", input: gone })).rejects.toMatchObject({
      code: "execution.not_found",
    });
    expect(fixture.runner.requests).toEqual([]);
  });

  test("stops after ten starts without a checkpoint", async () => {
    const fixture = await createTestSession({ host: { retry: { max_attempts: 3, base_ms: 0 } } });
    await fixture.bind(harnessPackage());
    fixture.runner.script = () => ended("failed", "crashed");
    const done = await (await fixture.kernel.runs.start(user, START)).settled;
    expect(done).toMatchObject({ status: "failed", error: { code: "crashed" } });
    expect(fixture.runner.requests).toHaveLength(10);
  });

  verifies("harness.contract", "shows a harness only its own execution", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const other = (await runHarness(fixture, {}, async () => {})).done.harness!.execution_id;
    const read: unknown[] = [];
    await runHarness(fixture, {}, async ({ caller, body }) => {
      const { execution_id } = body.target as { execution_id: string };
      for (const id of [execution_id, other])
        read.push(await fixture.kernel.runs.getExecution(caller, id).catch((error: unknown) => error));
    });
    expect(read).toMatchObject([{ status: "running" }, { code: "execution.not_found" }]);
    expect(await fixture.kernel.runs.getExecution(user, other)).toMatchObject({ status: "succeeded" });
  });

  verifies("harness.contract", "refuses a harness that cancels its own run", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const started = Promise.withResolvers<string>();
    let refusal: unknown = null;
    scriptHarness(fixture, async ({ caller, cancelled }) => {
      const run_id = await started.promise;
      const cancel = fixture.kernel.runs.cancel(caller, run_id).catch((error: unknown) => error);
      refusal = await Promise.race([cancel, cancelled]);
      return { summary: { text: "not cancelled" } };
    });
    const ticket = await fixture.kernel.runs.start(user, START);
    started.resolve(ticket.run.id);
    expect(await ticket.settled).toMatchObject({
      status: "completed",
      output: { content: "not cancelled" },
    });
    expect(refusal).toMatchObject({
      code: "policy.denied",
      message: "A harness may not cancel its own run.",
    });
  });

  test("refuses two different values for the session or the chain of a call", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    scriptHarness(fixture, async () => ({}));
    await fixture.say("hello", "s1");
    await fixture.say("hello", "s2");
    const { head_chain_id: chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    const call = (ids: JsonObject, target: JsonObject) =>
      fixture.call({ export_id: "triage", input: { target }, ...ids }, admin);
    await expect(call({ session_id: "s1" }, { session_id: "s2" })).rejects.toMatchObject({
      code: "request.invalid",
      message: "The request has two different values for session_id.",
    });
    await expect(
      call({ session_id: "s1", chain_id }, { session_id: "s1", chain_id: "chain_other" }),
    ).rejects.toMatchObject({
      code: "request.invalid",
      message: "The request has two different values for chain_id.",
    });
    expect(fixture.runner.requests).toEqual([]);
    const ids = { session_id: "s1", chain_id };
    expect(await call(ids, ids)).toMatchObject({ status: "succeeded", ...ids });
  });

  test("requires a key for each run that a harness starts", async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const { used } = await runHarness(fixture, {}, async ({ caller }) => {
      const body = { session_id: "child", input: { text: "/say x" } };
      await expect(fixture.kernel.runs.start(caller, body)).rejects.toMatchObject({
        code: "request.invalid",
      });
    });
    expect(used).toMatchObject({ child_runs: 0 });
  });

  verifies(
    "harness.contract",
    "grants a harness only the scopes that the `supports` list of its manifest allows",
    async () => {
      const fixture = await createTestSession();
      await fixture.bind(harnessPackage({ supports: ["continue"] }));
      let scopes: readonly string[] = [];
      let refusal: unknown;
      await runHarness(fixture, {}, async ({ request, run }) => {
        scopes = request.context.gateway.scopes;
        await (await run("same", "s1", "/say x")).ticket!.settled;
        await run("other", "elsewhere", "/say x").catch((error) => {
          refusal = error;
        });
      });
      expect(scopes).toEqual(["chains:read", "runs:read", "runs:write", "sessions:read"]);
      expect(refusal).toMatchObject({ code: "policy.denied" });
      const hosted = await createTestSession();
      await hosted.bind(harnessPackage({ mode: "hosted" }));
      await runHarness(hosted, { max_child_runs: 5 }, async ({ request, body }) => {
        expect(request.context.gateway.scopes).not.toContain("runs:write");
        expect(body.policy).toMatchObject({ max_child_runs: 0 });
      });
      expect(() => harnessPackage({ mode: "agent" })).toThrow(/mode/);
      expect(() => harnessPackage({ supports: ["fly"] })).toThrow(/supports/);
    },
  );
});
