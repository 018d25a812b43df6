import type { Caller, Kernel } from "@backplane/ports";
import { expect, test } from "vitest";
import { WHOLE_CATALOG } from "../../../src/mcp/lists/view.ts";
import { createLogLevelForwarding } from "../../../src/mcp/notifications/forward-log-level.ts";
import type { McpExchange } from "../../../src/mcp/session/exchange.ts";

const exchangeOf = (project_id: string) =>
  ({
    caller: { scope: { org_id: "o", project_id } } as Caller,
    view: WHOLE_CATALOG,
  }) as McpExchange;

test("forwards the least severe level of each project to the project's own process", async () => {
  const sent: string[] = [];
  const servers = {
    list: async () => [{ binding_id: "bind_1", capabilities: { logging: {} } }],
    request: async ({ scope }: Caller, _id: string, _method: string, { level }: { level: string }) => {
      sent.push(`${scope.project_id} ${level}`);
      return {};
    },
  };
  const forward = createLogLevelForwarding({ servers } as unknown as Kernel);
  for (const [project_id, level] of [
    ["p1", "warning"],
    ["p2", "error"],
    ["p1", "error"],
    ["p1", "debug"],
  ] as const) {
    forward(exchangeOf(project_id), level);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  expect(sent).toEqual(["p1 warning", "p2 error", "p1 debug"]);
});
