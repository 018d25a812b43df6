import { type JsonObject, HIDDEN_MARK as X } from "@backplane/contract";
import type { Kernel, ServerInfo } from "@backplane/ports";
import { expect, test } from "vitest";
import { createServerLists } from "../../../src/mcp/lists/server-lists.ts";

const server: ServerInfo = {
  name: "a",
  binding_id: "bind_a",
  package_id: "acme/a",
  capabilities: { resources: {} },
  instructions: null,
  tools: [],
};

test("marks hidden characters in texts of resources and omits resources with hidden characters in their URI", async () => {
  const logged: string[] = [];
  const resources: JsonObject[] = [
    { uri: "x://one", name: "one", description: "first\u{e0041}\u202e" },
    { uri: "x://t\u200bwo", name: "two" },
  ];
  const servers = {
    list: async () => [server],
    request: async () => ({ resources }),
    onNotification: () => () => undefined,
  };
  const log = { warn: (_fields: object, text: string) => logged.push(text) };
  const lists = createServerLists(
    { servers } as unknown as Kernel,
    { monotonic: () => 0 } as never,
    log as never,
  );
  const items = await lists.list({ scope: {} } as never, { server: null }, "resources");
  expect(items.map(({ item }) => item)).toEqual([{ uri: "x://one", name: "one", description: `first${X}` }]);
  expect(logged).toEqual([expect.stringContaining("contains hidden characters")]);
});
