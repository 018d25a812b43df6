/** Model calls outside a conversation run on bridge sessions, which have no tape. */
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";

/** The sessions of all model calls outside the conversation `s1`. */
const bridgeSessions = ({ events }: TestSession) =>
  events
    .filter(({ kind, session_id }) => kind === "llm.call.request" && session_id !== "s1")
    .map(({ session_id }) => session_id);

verifies(
  ["webapi.providers", "bus.reserved"],
  "tests a provider and summarizes a conversation on bridge sessions",
  async () => {
    const fixture = await createTestSession();
    expect(await fixture.kernel.providers.test(admin, "llm-echo")).toMatchObject({ ok: true });
    for (let n = 0; n < 4; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(60)}`);
    await fixture.kernel.sessions.compact(user, { session_id: "s1" });
    expect(bridgeSessions(fixture)).toEqual([
      expect.stringMatching(new RegExp(`^_bridge:web-api-test:${UUID}$`)),
      expect.stringMatching(new RegExp(`^_bridge:compaction:${UUID}$`)),
    ]);
    const answers = fixture.events.filter(({ kind }) => kind === "llm.call.response");
    expect(answers.map(({ session_id }) => session_id)).toEqual(
      expect.arrayContaining(bridgeSessions(fixture)),
    );
    // No write was tried for sessions that have no tape.
    expect(fixture.events.filter(({ kind }) => kind === "plugin.error")).toEqual([]);
  },
);
