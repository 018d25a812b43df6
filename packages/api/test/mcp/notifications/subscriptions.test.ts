import { BackplaneError } from "@backplane/contract";
import type { Caller, Clock, Kernel, ServerInfo, ServerNotification } from "@backplane/ports";
import { expect, test } from "vitest";
import { createSubscriptions } from "../../../src/mcp/notifications/subscriptions.ts";

const server = { binding_id: "bind_1" } as ServerInfo;
const caller = { scope: { org_id: "o", project_id: "p" } } as Caller;
const server_ended: ServerNotification = {
  binding_id: "bind_1",
  project_id: "p",
  method: "backplane/server.gone",
  params: {},
};

function createTestSubscriptions() {
  const sent: string[] = [];
  const timers: { ms: number; run: () => void }[] = [];
  let listener: (notification: ServerNotification) => void = () => {};
  const outcome = { fail: null as BackplaneError | null };
  const servers = {
    check: async ({ role }: Caller) => {
      if (role === "guest") throw new BackplaneError("policy.denied");
    },
    request: async (_caller: Caller, id: string, method: string, { uri }: { uri: string }) => {
      sent.push(`${id} ${method} ${uri}`);
      if (outcome.fail !== null) throw outcome.fail;
      return {};
    },
    onNotification(next_listener: typeof listener) {
      listener = next_listener;
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
    outcome,
    subscriptions,
    timers,
    notify: (notification: ServerNotification) => listener(notification),
    tick: async () => {
      const [timer] = timers.splice(0, 1);
      timer?.run();
      await new Promise((done) => setTimeout(done, 0));
      return timer?.ms;
    },
  };
}

test("subscribes once to every remaining resource of a restarted server", async () => {
  const { sent, subscriptions, notify, tick, timers } = createTestSubscriptions();
  await subscriptions.subscribe(caller, server, "x://one");
  const unsubscribe = await subscriptions.subscribe(caller, server, "x://two");
  unsubscribe();
  sent.length = 0;
  notify(server_ended);
  notify(server_ended);
  notify({ ...server_ended, project_id: "other" });
  notify({ ...server_ended, binding_id: "bind_2" });
  expect(timers).toHaveLength(1);
  await tick();
  expect(sent).toEqual(["bind_1 resources/subscribe x://one"]);
  expect(timers).toHaveLength(0);
});

test("retries with increasing delays, and stops when the binding was removed", async () => {
  const { outcome, subscriptions, notify, tick, timers } = createTestSubscriptions();
  await subscriptions.subscribe(caller, server, "x://one");
  outcome.fail = new BackplaneError("crash_loop");
  notify(server_ended);
  const delays = [];
  for (let i = 0; i < 5; i++) delays.push(await tick());
  expect(delays).toEqual([200, 2_000, 10_000, 60_000, 60_000]);
  outcome.fail = new BackplaneError("binding.not_found");
  await tick();
  expect(timers).toHaveLength(0);
});

test("does not subscribe again after close", async () => {
  const { subscriptions, notify, timers } = createTestSubscriptions();
  await subscriptions.subscribe(caller, server, "x://one");
  notify(server_ended);
  subscriptions.close();
  expect(timers).toHaveLength(0);
  notify(server_ended);
  expect(timers).toHaveLength(0);
});

test("subscribes with the server once and checks the policy for every client", async () => {
  const { sent, subscriptions } = createTestSubscriptions();
  await subscriptions.subscribe(caller, server, "x://one");
  const guest = { ...caller, role: "guest" } as Caller;
  await expect(subscriptions.subscribe(guest, server, "x://one")).rejects.toMatchObject({
    code: "policy.denied",
  });
  const unsubscribe = await subscriptions.subscribe(caller, server, "x://one");
  expect(sent).toEqual(["bind_1 resources/subscribe x://one"]);
  unsubscribe();
  expect(sent).toHaveLength(1);
});
