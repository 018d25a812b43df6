/** The lifecycle events of sessions, which are published on the session `kernel`. */
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

async function published(fixture: TestSession, kind: string): Promise<unknown> {
  await expect.poll(() => fixture.events.some((event) => event.kind === kind)).toBe(true);
  const [event, ...more] = fixture.events.filter((event) => event.kind === kind);
  expect(more).toEqual([]);
  return { session_id: event!.session_id, payload: event!.payload };
}

test("publishes session.started once when a session is created", async () => {
  const fixture = await createTestSession();
  const session = await fixture.kernel.sessions.create(user, { session_id: "new-one", workspace: "notes" });
  expect(await published(fixture, "session.started")).toEqual({
    session_id: "kernel",
    payload: { session_id: "new-one", tape_name: session.name, workspace: "notes" },
  });
});

test("publishes session.forked with parent and child when a session is forked", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  await fixture.kernel.sessions.fork(user, { session_id: "s1" }, { child_id: "branch" });
  expect(await published(fixture, "session.forked")).toEqual({
    session_id: "kernel",
    payload: { parent_id: "s1", child_id: "branch" },
  });
});

test("publishes session.archived with the old chain when a session is reset", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
  await fixture.kernel.sessions.reset(user, { session_id: "s1" });
  expect(await published(fixture, "session.archived")).toEqual({
    session_id: "kernel",
    payload: { session_id: "s1", archive_path: `chain:${head_chain_id}` },
  });
});
