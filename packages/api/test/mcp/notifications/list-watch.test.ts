import type { JsonObject } from "@backplane/contract";
import type { Caller, Kernel, ServerNotice } from "@backplane/ports";
import { expect, test } from "vitest";
import { createListWatch } from "../../../src/mcp/notifications/list-watch.ts";

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
function kernelWith(server: () => typeof SHARED): {
  kernel: Kernel;
  sendNotice: (notice: ServerNotice) => void;
} {
  let received = (_notice: ServerNotice): void => undefined;
  const kernel = {
    catalog: { list: async () => [], onChanged: () => () => undefined },
    servers: {
      list: async () => [server()],
      onNotice(listener: (notice: ServerNotice) => void) {
        received = listener;
        return () => undefined;
      },
    },
  } as unknown as Kernel;
  return { kernel, sendNotice: (notice) => received(notice) };
}

test("does not forward notices of one project's process to another project", async () => {
  const { kernel, sendNotice } = kernelWith(() => SHARED);
  const watch = createListWatch(kernel, clock);
  const received: string[] = [];
  for (const project_id of ["proj_a", "proj_b", null]) {
    await watch.listen(caller(project_id), {
      onListChanged: (list) => received.push(`${project_id} ${list}`),
      onNotice: ({ params }) => received.push(`${project_id} ${params.data as string}`),
    });
  }
  const message = { binding_id: "bind_org", method: "notifications/message" };
  sendNotice({ ...message, project_id: "proj_a", params: { data: "of a" } });
  sendNotice({ ...message, project_id: null, params: { data: "of the org" } });
  await new Promise(setImmediate);
  expect(received.splice(0)).toEqual(["proj_a of a", "null of the org"]);
  // A list change reveals nothing about other callers, and every process serves the same package.
  sendNotice({ ...message, method: "notifications/prompts/list_changed", project_id: "proj_a", params: {} });
  await new Promise(setImmediate);
  expect(received).toEqual(["proj_a prompts", "proj_b prompts", "null prompts"]);
  watch.close();
});

test("stops resource updates for a subscriber when its policy removes the resources", async () => {
  let capabilities: JsonObject = { resources: { subscribe: true } };
  const { kernel, sendNotice } = kernelWith(() => ({ ...SHARED, capabilities }));
  const watch = createListWatch(kernel, clock);
  const received: string[] = [];
  await watch.listen(caller("p"), {
    onListChanged: () => undefined,
    onNotice: ({ method }) => received.push(method),
  });
  const notify = async (method: string) => {
    sendNotice({ binding_id: "bind_org", project_id: "p", method, params: {} });
    await new Promise(setImmediate);
  };
  await notify("notifications/resources/updated");
  capabilities = {};
  await notify("notifications/resources/updated");
  await notify("notifications/message");
  expect(received).toEqual(["notifications/resources/updated", "notifications/message"]);
  watch.close();
});
