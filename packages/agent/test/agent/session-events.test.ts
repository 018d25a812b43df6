/** The lifecycle events of sessions, which are published on the session `kernel`. */
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession, watchEntries } from "../loop/test-session.ts";

/** The payloads of one kind, once there are `count` of them. All must be on the session `kernel`. */
async function waitForPayloads(fixture: TestSession, kind: string, count = 1): Promise<unknown[]> {
  const all = () => fixture.events.filter((event) => event.kind === kind);
  await expect.poll(() => all().length).toBeGreaterThanOrEqual(count);
  expect(all().every(({ session_id }) => session_id === "kernel")).toBe(true);
  return all().map(({ payload }) => payload);
}

const SESSION_STARTS: Record<string, (fixture: TestSession, id: string) => Promise<unknown>> = {
  "is created": ({ kernel }, session_id) => kernel.sessions.create(user, { session_id }),
  "gets its first message": (fixture, id) => fixture.say("hello", id),
  "gets its first run": ({ kernel }, session_id) =>
    kernel.runs.start(user, { session_id, input: { text: "hello" } }).then(({ settled }) => settled),
  "gets its first watcher": ({ kernel }, session_id) =>
    kernel.fanout.attach(
      { ...user, scopes: ["sessions:write"] },
      { session_id },
      {
        adapter_id: "test",
        since_entry: null,
        send: () => 0,
        ended() {},
      },
    ),
};

for (const [event, begin] of Object.entries(SESSION_STARTS))
  verifies("session.events", `publishes session.started once when a session ${event}`, async () => {
    const fixture = await createTestSession();
    await begin(fixture, "new-one");
    await fixture.kernel.sessions.create(user, { session_id: "next", workspace: "notes" });
    const { name: tape_name } = await fixture.kernel.sessions.get(user, { session_id: "new-one" });
    const next = await fixture.kernel.sessions.get(user, { session_id: "next", workspace: "notes" });
    expect(await waitForPayloads(fixture, "session.started", 2)).toEqual([
      { session_id: "new-one", tape_name, workspace: "default" },
      { session_id: "next", tape_name: next.name, workspace: "notes" },
    ]);
  });

verifies("session.events", "publishes session.started and session.forked for every branch", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
  // A second chain of the same session is not a new session.
  await fixture.kernel.chains.fork(user, head_chain_id, {});
  await fixture.kernel.sessions.fork(user, { session_id: "s1" }, { child_id: "branch" });
  await fixture.kernel.chains.fork(user, head_chain_id, { child_id: "from-chain" });
  expect(await waitForPayloads(fixture, "session.forked", 2)).toEqual([
    { parent_id: "s1", child_id: "branch" },
    { parent_id: "s1", child_id: "from-chain" },
  ]);
  expect(await waitForPayloads(fixture, "session.started", 3)).toMatchObject([
    { session_id: "s1" },
    { session_id: "branch" },
    { session_id: "from-chain" },
  ]);
});

verifies("session.events", "publishes session.started and session.forked for a sub-agent", async () => {
  const fixture = await createTestSession({ plugins: [agentTool, autoApprovePlugin().plugin] });
  await fixture.say(`/tool agent ${JSON.stringify({ goal: "/say done" })}`);
  const [forked, ...more] = await waitForPayloads(fixture, "session.forked");
  expect(more).toEqual([]);
  expect(forked).toEqual({ parent_id: "s1", child_id: expect.stringMatching(/^s1::agent::/) });
  const { child_id } = forked as { child_id: string };
  expect(await waitForPayloads(fixture, "session.started", 2)).toMatchObject([
    { session_id: "s1" },
    { session_id: child_id, workspace: "default" },
  ]);
});

verifies(
  ["session.events", "tape.reset"],
  "publishes session.reset and session.archived with the old chain when a session is reset",
  async () => {
    const fixture = await createTestSession();
    await fixture.say("hello");
    const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    const { archive_path } = await fixture.kernel.sessions.reset(user, { session_id: "s1" });
    expect(archive_path).toBe(`chain:${head_chain_id}`);
    expect(await waitForPayloads(fixture, "session.reset")).toEqual([{ session_id: "s1", archive_path }]);
    expect(await waitForPayloads(fixture, "session.archived")).toEqual([{ session_id: "s1", archive_path }]);
  },
);

test("resets a session without an archive on request and keeps the old chain", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  const tape_before = await fixture.tape();
  const reset = await fixture.kernel.sessions.reset(user, { session_id: "s1" }, { archive: false });
  expect(reset.archive_path).toBeNull();
  expect(await waitForPayloads(fixture, "session.reset")).toEqual([{ session_id: "s1", archive_path: null }]);
  expect(fixture.events.some(({ kind }) => kind === "session.archived")).toBe(false);
  expect((await fixture.tape()).slice(0, tape_before.length)).toEqual(tape_before);
});

verifies(
  "session.events",
  "writes an anchor on a handoff, publishes session.handoff and begins the context at the anchor",
  async () => {
    const fixture = await createTestSession();
    await fixture.say("the old topic");
    const state = { summary: "The order was shipped.", next: "invoice" };
    const anchor = { name: "shipped", state };
    const entry = await fixture.kernel.sessions.handOff(user, { session_id: "s1" }, anchor);
    expect(entry).toMatchObject({ kind: "anchor", payload: anchor, meta: { source: "kernel" } });
    expect(await waitForPayloads(fixture, "session.handoff")).toEqual([{ session_id: "s1", ...anchor }]);
    expect((await fixture.tape()).at(-1)).toEqual(entry);
    await fixture.say("the new topic");
    const requests = fixture.events.filter(({ kind }) => kind === "llm.call.request");
    const messages = JSON.stringify(requests.at(-1)!.payload.messages);
    expect(messages).toContain(state.summary);
    expect(messages).toContain("the new topic");
    expect(messages).not.toContain("the old topic");
  },
);

test("sends the entries of a compaction, a handoff and a reset to the watchers of the session", async () => {
  const fixture = await createTestSession();
  const { sessions } = fixture.kernel;
  const ref = { session_id: "s1" };
  for (let n = 0; n < 2; n++) await fixture.say(`/say ${"lorem ipsum dolor ".repeat(60)}`);
  const { last_entry_id } = await sessions.get(user, ref);
  const watched_entries = await watchEntries(fixture);
  const changes = [
    () => sessions.compact(user, ref),
    () => sessions.handOff(user, ref, { name: "shipped", state: {} }),
    () => sessions.reset(user, ref),
  ];
  for (const change of changes) {
    await change();
    const session = await sessions.get(user, ref);
    const ids = Array.from(
      { length: session.last_entry_id - last_entry_id },
      (_, n) => last_entry_id + n + 1,
    );
    await expect.poll(() => watched_entries).toEqual(ids);
  }
});

test("refuses a handoff with a reserved or invalid name, or while a turn runs", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  const handoff = (name: string) =>
    fixture.kernel.sessions.handOff(user, { session_id: "s1" }, { name, state: {} });
  for (const name of ["session/compaction", "", "a\u0000b", "n".repeat(129)])
    await expect(handoff(name)).rejects.toMatchObject({ code: "request.invalid" });
  await fixture.kernel.sessions.sendMessage(
    user,
    { session_id: "s1" },
    { text: "/slow 10000\n/say one two" },
  );
  await expect(handoff("shipped")).rejects.toMatchObject({ code: "session.busy" });
  await fixture.kernel.sessions.interrupt(user, { session_id: "s1" });
});

test.each(["reset", "compact"] as const)(
  "interrupts nothing while a %s reserves the session, and says why the session is busy",
  async (work) => {
    const fixture = await createTestSession();
    const { sessions } = fixture.kernel;
    const ref = { session_id: "s1" };
    for (let n = 0; n < 3; n++) await fixture.say(`/say ${"lorem ipsum dolor ".repeat(30)}`);
    const { store } = fixture;
    const write = store.sessions[work] as (...args: unknown[]) => Promise<never>;
    const gate = Promise.withResolvers<void>();
    let reached = false;
    store.sessions[work] = async (...args: unknown[]) => {
      reached = true;
      await gate.promise;
      return await write.apply(store.sessions, args);
    };
    const working = sessions[work](user, ref);
    await expect.poll(() => reached).toBe(true);
    const interrupted = await sessions.interrupt(user, ref);
    const refusal = await sessions.reset(user, ref).catch((error: unknown) => error);
    gate.resolve();
    await working;
    expect(interrupted).toBe(false);
    expect(refusal).toMatchObject({
      code: "session.busy",
      message: "The session is being reset, compacted or handed off.",
    });
    expect(fixture.events.filter(({ kind }) => kind === "user.interrupt")).toEqual([]);
  },
);
