import { BackplaneError } from "@backplane/contract";
import type { Caller, Clock, Kernel, ServerInfo, ServerNotice } from "@backplane/kernel";
import { expect, test } from "vitest";
import { createSubscriptions } from "../../src/mcp/subscriptions.ts";

const server = { binding_id: "bind_1" } as ServerInfo;
const caller = { scope: { org_id: "o", project_id: "p" } } as Caller;
const gone: ServerNotice = {
  binding_id: "bind_1",
  project_id: "p",
  method: "backplane/server.gone",
  params: {},
};

function rig() {
  const sent: string[] = [];
  const timers: { ms: number; run: () => void }[] = [];
  let listener: (notice: ServerNotice) => void = () => {};
  const how = { fail: null as BackplaneError | null };
  const servers = {
    check: async ({ role }: Caller) => {
      if (role === "guest") throw new BackplaneError("policy.denied");
    },
    request: async (_caller: Caller, id: string, method: string, { uri }: { uri: string }) => {
      sent.push(`${id} ${method} ${uri}`);
      if (how.fail !== null) throw how.fail;
      return {};
    },
    onNotice(heard: typeof listener) {
      listener = heard;
      return () => {
        listener = () => {};
      };
    },
  };
  const clock = {
    after(ms: number, run: () => void) {
      timers.push({ ms, run });
      return { stop: () => timers.splice(0) };
    },
  } as unknown as Clock;
  const subscriptions = createSubscriptions({ servers } as unknown as Kernel, clock);
  return {
    sent,
    how,
    subscriptions,
    timers,
    say: (notice: ServerNotice) => listener(notice),
    tick: async () => {
      const [one] = timers.splice(0, 1);
      one?.run();
      await new Promise((done) => setTimeout(done, 0));
      return one?.ms;
    },
  };
}

test("the successor of a server is subscribed to all that is still held, once", async () => {
  const { sent, subscriptions, say, tick, timers } = rig();
  await subscriptions.hold(caller, server, "x://one");
  const leave = await subscriptions.hold(caller, server, "x://two");
  leave();
  sent.length = 0;
  say(gone);
  say(gone);
  say({ ...gone, project_id: "other" });
  say({ ...gone, binding_id: "bind_2" });
  expect(timers).toHaveLength(1);
  await tick();
  expect(sent).toEqual(["bind_1 resources/subscribe x://one"]);
  expect(timers).toHaveLength(0);
});

test("one that does not come back is asked less and less, one whose binding is gone not at all", async () => {
  const { how, subscriptions, say, tick, timers } = rig();
  await subscriptions.hold(caller, server, "x://one");
  how.fail = new BackplaneError("crash_loop");
  say(gone);
  const pauses = [];
  for (let i = 0; i < 5; i++) pauses.push(await tick());
  expect(pauses).toEqual([200, 2_000, 10_000, 60_000, 60_000]);
  how.fail = new BackplaneError("binding.not_found");
  await tick();
  expect(timers).toHaveLength(0);
});

test("after the end nothing is asked any more", async () => {
  const { subscriptions, say, timers } = rig();
  await subscriptions.hold(caller, server, "x://one");
  say(gone);
  subscriptions.close();
  expect(timers).toHaveLength(0);
  say(gone);
  expect(timers).toHaveLength(0);
});

test("what somebody else holds is asked of the server once, and of the policy for everybody", async () => {
  const { sent, subscriptions } = rig();
  await subscriptions.hold(caller, server, "x://one");
  const guest = { ...caller, role: "guest" } as Caller;
  await expect(subscriptions.hold(guest, server, "x://one")).rejects.toMatchObject({ code: "policy.denied" });
  const leave = await subscriptions.hold(caller, server, "x://one");
  expect(sent).toEqual(["bind_1 resources/subscribe x://one"]);
  leave();
  expect(sent).toHaveLength(1);
});
