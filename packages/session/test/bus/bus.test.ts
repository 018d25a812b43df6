import { isId } from "@backplane/contract";
import { BusEventSchema } from "@backplane/contract/schema";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestBus, nextTurn, scope } from "./test-bus.ts";

const other_project = { org_id: "org_acme", project_id: "proj_two" };
const other_org = { org_id: "org_other", project_id: "proj_one" };

verifies(
  "bus.envelope",
  "sets id, time, source and scope of an event itself and ignores forged ones",
  async () => {
    const { attachPlugin, clock, events } = createTestBus();
    const forged = { id: "evt_mine", ts: 1, source: "kernel", org_id: "org_other", kind: "kernel.error" };
    const options = { session_id: "s", ...forged };
    const sent = await attachPlugin("web", "adapter").publish(
      "user.message.received",
      { text: "hi", ...forged },
      options,
    );
    await nextTurn();
    expect(events).toEqual([sent]);
    expect(Object.keys(sent).sort()).toEqual(
      ["id", "kind", "org_id", "payload", "project_id", "session_id", "source", "ts"].sort(),
    );
    expect(isId("event", sent.id)).toBe(true);
    expect(sent).toMatchObject({ kind: "user.message.received", session_id: "s", source: "web", ...scope });
    expect(sent.ts).toBe(clock.now() / 1000);
    expect(BusEventSchema.parse(sent)).toEqual(sent);
    // A handler cannot change the event for the handlers after it.
    expect(() => Object.assign(sent, { source: "kernel" })).toThrow(TypeError);
    expect(() => Object.assign(sent.payload, { text: "other" })).toThrow(TypeError);
  },
);

test("includes the part of the kernel in the source of its events", async () => {
  const { bus } = createTestBus();
  const options = { session_id: "kernel", scope };
  expect((await bus.kernel().publish("kernel.ready", { version: "1" }, options)).source).toBe("kernel");
  const part = bus.kernel("session-context");
  expect((await part.publish("kernel.ready", { version: "1" }, options)).source).toBe(
    "kernel-session-context",
  );
});

verifies("bus.scope", "delivers events only to subscribers of their scope", async () => {
  const { bus, attachPlugin } = createTestBus();
  const received: string[] = [];
  const subscribe = (name: string, where: { org_id: string; project_id: string | null }) => {
    const port = bus.attach({ name, category: "skill", scope: where });
    port.subscribe("*", (event) => void received.push(`${name} ${event.kind} ${event.project_id}`));
    return port;
  };
  subscribe("here", scope);
  subscribe("there", other_project);
  subscribe("foreign", other_org);
  subscribe("whole", { org_id: "org_acme", project_id: null });
  await attachPlugin("web", "adapter").publish("user.interrupt", {}, { session_id: "s" });
  await nextTurn();
  expect(received.splice(0)).toEqual(["here user.interrupt proj_one", "whole user.interrupt proj_one"]);

  // A project receives announcements of its org, but not events of the org's own sessions.
  const kernel = bus.kernel();
  const org = { org_id: "org_acme", project_id: null };
  await kernel.publish("kernel.ready", { version: "1" }, { session_id: "kernel", scope: org });
  await kernel.publish("user.message.received", { text: "secret" }, { session_id: "s", scope: org });
  await nextTurn();
  expect(received.sort()).toEqual([
    "here kernel.ready null",
    "there kernel.ready null",
    "whole kernel.ready null",
    "whole user.message.received null",
  ]);
});

verifies(
  "bus.scope",
  "rejects publishing into another project, but lets a port of the whole org choose the project",
  async () => {
    const { bus, attachPlugin } = createTestBus();
    const web = attachPlugin("web", "adapter");
    await expect(
      web.publish("user.interrupt", {}, { session_id: "s", project_id: "proj_two" }),
    ).rejects.toMatchObject({ code: "policy.denied" });
    const org_wide = { org_id: "org_acme", project_id: null };
    const provider = bus.attach({ name: "llm-echo", category: "llm-provider", scope: org_wide });
    const options = { session_id: "s", project_id: "proj_two" };
    expect(await provider.publish("llm.call.delta", { content: "a" }, options)).toMatchObject(other_project);
    const scopeless = bus
      .kernel()
      .publish("kernel.ready", { version: "1" }, { session_id: "kernel" } as never);
    await expect(scopeless).rejects.toMatchObject({ code: "request.invalid" });
  },
);

test("keeps sessions with the same id in two projects apart", async () => {
  const { bus, events } = createTestBus();
  const kernel = bus.kernel();
  let release = () => {};
  const first = bus.attach({ name: "slow", category: "skill", scope });
  first.subscribe("user.interrupt", () => new Promise<void>((resolve) => (release = resolve)));
  await kernel.publish("user.interrupt", {}, { session_id: "s", scope });
  await kernel.publish("user.interrupt", {}, { session_id: "s", scope });
  await kernel.publish("user.interrupt", {}, { session_id: "s", scope: other_project });
  await nextTurn();
  expect(events.map((event) => event.project_id)).toEqual(["proj_one", "proj_two"]);
  release();
});

verifies(
  "bus.scope",
  "delivers the events of a session and the kernel's events about it to the session's subscriber",
  async () => {
    const { bus, attachPlugin } = createTestBus();
    const web = attachPlugin("web", "adapter");
    const received: string[] = [];
    const stop = web.subscribe(
      "*",
      ({ kind, payload }) => void received.push(`${kind} ${JSON.stringify(payload.id ?? "")}`),
      {
        session: "mine",
      },
    );
    bus
      .attach({ name: "web", category: "adapter", scope: other_org })
      .subscribe("*", () => void received.push("another org received it"), { session: "mine" });
    const kernel = bus.kernel();
    const requestApproval = (id: string, target_session_id: string) =>
      kernel.publish(
        "approval.request",
        { id, tool_name: "bash", params: {}, brief: "run", target_session_id },
        { session_id: "kernel", scope },
      );
    await requestApproval("a1", "mine");
    await requestApproval("a2", "other");
    await web.publish("user.interrupt", {}, { session_id: "mine" });
    await web.publish("user.interrupt", {}, { session_id: "other" });
    const replayed = { session_id: "mine", connection_id: "c", replayed: 0 };
    await kernel.publish("session.replay.done", replayed, { session_id: "kernel", scope });
    await nextTurn();
    expect(received.sort()).toEqual(['approval.request "a1"', 'session.replay.done ""', 'user.interrupt ""']);
    stop();
    expect(bus.stats().subscriptions).toBe(2);
  },
);

verifies("bus.scope", "rejects an approval request without a target session", async () => {
  const { bus } = createTestBus();
  const options = { session_id: "kernel", scope };
  const prompt = { id: "a", tool_name: "bash", params: {}, brief: "run" };
  await expect(bus.kernel().publish("approval.request", prompt as never, options)).rejects.toMatchObject({
    details: { issues: [{ path: "target_session_id" }] },
  });
  const ended = { id: "a", reason: "timeout" as const };
  await expect(bus.kernel().publish("approval.cancelled", ended as never, options)).rejects.toMatchObject({
    code: "request.invalid",
  });
});

test("a detached port neither receives nor publishes events, and its name can be registered again", async () => {
  const { bus, attachPlugin, events, idle, clock } = createTestBus();
  const skill = attachPlugin("notes", "skill");
  let received = 0;
  skill.subscribe("user.*", () => void received++);
  const web = attachPlugin("web", "adapter");
  web.tryPublish("user.interrupt", {}, { session_id: "s" });
  skill.detach();
  skill.detach();
  await idle();
  expect([received, events.length]).toEqual([0, 1]);
  await expect(skill.publish("user.interrupt", {}, { session_id: "s" })).rejects.toMatchObject({
    code: "cancelled",
  });
  expect(() => skill.subscribe("*", () => {})).toThrow("no longer attached");
  attachPlugin("notes", "skill").detach();
  web.detach();
  await clock.advance(500);
  expect(bus.stats()).toMatchObject({ scopes: 0, subscriptions: 1 });
});
