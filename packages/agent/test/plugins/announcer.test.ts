import { createIdSource, KERNEL_SESSION } from "@backplane/contract";
import { createBus } from "@backplane/session";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { Announcer } from "../../src/plugins/announcer.ts";
import { PluginSubscriptions } from "../../src/plugins/subscriptions.ts";

test("does not wait for an org whose queue is full", async () => {
  const clock = new TestClock();
  const warnings: unknown[] = [];
  const log = createTestLogger((_level, message, fields) => warnings.push({ message, fields }));
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>),
  );
  const bus = createBus({ clock, ids, log, limits: { queue: 1 } });
  onTestFinished(() => {
    bus.close();
    clock.halt();
  });
  const subscriptions = new PluginSubscriptions(bus);
  for (const org_id of ["org_busy", "org_idle"]) subscriptions.subscribeOrg(org_id);
  const announcer = new Announcer(bus, subscriptions, log);
  const port = bus.kernel("blocker");
  port.subscribe("kernel.ready", () => new Promise<void>(() => {}));
  const to = { session_id: KERNEL_SESSION, scope: { org_id: "org_busy", project_id: null } };
  const received: string[] = [];
  port.subscribe("kernel.shutdown", ({ org_id }) => void received.push(org_id));
  port.tryPublish("kernel.ready", { version: "1" }, to);
  await new Promise((resolve) => setImmediate(resolve));
  while (port.tryPublish("kernel.ready", { version: "1" }, to) !== null);
  await announcer.publishAndWait("kernel.shutdown", { reason: "SIGTERM" });
  expect(received).toEqual(["org_idle"]);
  expect(warnings).toMatchObject([{ fields: { kind: "kernel.shutdown", org_id: "org_busy" } }]);
  announcer.close();
});
