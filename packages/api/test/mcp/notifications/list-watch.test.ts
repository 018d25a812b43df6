import type { JsonObject } from "@backplane/contract";
import type { Caller, Kernel, ServerNotification } from "@backplane/ports";
import { expect, test } from "vitest";
import { createListWatch } from "../../../src/mcp/notifications/list-watch.ts";
import { createCatalogTool } from "../../support/catalog-tool.ts";

const clock = { now: () => 0, monotonic: () => 0, after: () => ({ stop() {} }) };
const SHARED = { name: "s", binding_id: "bind_org", capabilities: {}, instructions: null, tools: [] };

const caller = (project_id: string | null): Caller => ({
  actor: "a",
  scope: { org_id: "org_local", project_id },
  role: "user",
  scopes: [],
  admin: false,
});

/** The parts of a kernel that the watch needs, with one server whose notifications the test sends. */
function createKernelWith(server: () => typeof SHARED): {
  kernel: Kernel;
  sendNotification: (notification: ServerNotification) => void;
} {
  let received = (_notification: ServerNotification): void => undefined;
  const kernel = {
    catalog: { list: async () => [], onChanged: () => () => undefined },
    servers: {
      list: async () => [server()],
      onNotification(listener: (notification: ServerNotification) => void) {
        received = listener;
        return () => undefined;
      },
    },
  } as unknown as Kernel;
  return { kernel, sendNotification: (notification) => received(notification) };
}

test("does not forward notifications of one project's process to another project", async () => {
  const { kernel, sendNotification } = createKernelWith(() => SHARED);
  const watch = createListWatch(kernel, clock);
  const received: string[] = [];
  for (const project_id of ["proj_a", "proj_b", null]) {
    await watch.listen(caller(project_id), {
      onListChanged: (list) => received.push(`${project_id} ${list}`),
      onNotification: ({ params }) => received.push(`${project_id} ${params.data as string}`),
    });
  }
  const message = { binding_id: "bind_org", method: "notifications/message" };
  sendNotification({ ...message, project_id: "proj_a", params: { data: "of a" } });
  sendNotification({ ...message, project_id: null, params: { data: "of the org" } });
  await new Promise(setImmediate);
  expect(received.splice(0)).toEqual(["proj_a of a", "null of the org"]);
  // A list change reveals nothing about other callers, and every process serves the same package.
  sendNotification({
    ...message,
    method: "notifications/prompts/list_changed",
    project_id: "proj_a",
    params: {},
  });
  await new Promise(setImmediate);
  expect(received).toEqual(["proj_a prompts", "proj_b prompts", "null prompts"]);
  watch.close();
});

test("stops resource updates for a subscriber when its policy removes the resources", async () => {
  let capabilities: JsonObject = { resources: { subscribe: true } };
  const { kernel, sendNotification } = createKernelWith(() => ({ ...SHARED, capabilities }));
  const watch = createListWatch(kernel, clock);
  const received: string[] = [];
  await watch.listen(caller("p"), {
    onListChanged: () => undefined,
    onNotification: ({ method }) => received.push(method),
  });
  const notify = async (method: string) => {
    sendNotification({ binding_id: "bind_org", project_id: "p", method, params: {} });
    await new Promise(setImmediate);
  };
  await notify("notifications/resources/updated");
  capabilities = {};
  await notify("notifications/resources/updated");
  await notify("notifications/message");
  expect(received).toEqual(["notifications/resources/updated", "notifications/message"]);
  watch.close();
});

test("finds an unannounced change by polling and reports it once to each client", async () => {
  const { kernel } = createKernelWith(() => SHARED);
  let tools = [createCatalogTool("one")];
  Object.assign(kernel.catalog, { list: async () => tools });
  let runTimer = (): void => undefined;
  const delays_ms: number[] = [];
  const after = (ms: number, run: () => void) => {
    delays_ms.push(ms);
    runTimer = run;
    return { stop() {} };
  };
  const watch = createListWatch(kernel, { ...clock, after });
  const counts = [0, 0];
  const listener = (n: number) => ({
    onListChanged: () => void counts[n]!++,
    onNotification: () => undefined,
  });
  const unsubscribe = await watch.listen(caller(null), listener(0));
  await watch.listen(caller(null), listener(1));
  const poll = async () => {
    runTimer();
    await new Promise(setImmediate);
  };
  tools = [createCatalogTool("one")];
  await poll();
  expect(counts).toEqual([0, 0]);
  tools = [createCatalogTool("one"), createCatalogTool("two")];
  await poll();
  expect(counts).toEqual([1, 1]);
  unsubscribe();
  tools = [];
  await poll();
  expect(counts).toEqual([1, 2]);
  expect(Math.max(...delays_ms)).toBeLessThanOrEqual(11_000);
  watch.close();
});
