import { BackplaneError } from "@backplane/contract";
import type { ServerInfo } from "@backplane/ports";
import { expect, test } from "vitest";
import {
  listenNotifications,
  type NotificationDeps,
  sessionNotifications,
} from "../../../src/mcp/notifications/notification-streams.ts";
import type { McpClientRequest } from "../../../src/mcp/protocol/json-rpc.ts";
import type { McpExchange } from "../../../src/mcp/session/exchange.ts";
import { McpSessions } from "../../../src/mcp/session/sessions.ts";
import { userNamed } from "../../support/callers.ts";

const request: McpClientRequest = {
  kind: "request",
  id: 1,
  method: "subscriptions/listen",
  params: { notifications: { resourceSubscriptions: ["x://one", "x://two"] } },
};
const exchange = { caller: userNamed("a"), view: { server: null }, stateless: true } as McpExchange;

function createTestDeps(listen: () => Promise<() => void>) {
  const subscribed = new Set<string>();
  const deps = {
    list_watch: { listen, close: () => {} },
    resources: { findServer: async () => ({ binding_id: "bind_1" }) as ServerInfo },
    subscriptions: {
      async subscribe(_caller: unknown, _server: unknown, uri: string) {
        subscribed.add(uri);
        return () => void subscribed.delete(uri);
      },
    },
  } as unknown as NotificationDeps;
  return { deps, subscribed };
}

test("releases the resource subscriptions of a stream that could not be opened", async () => {
  const { deps, subscribed } = createTestDeps(() => Promise.reject(new BackplaneError("store.unavailable")));
  await expect(listenNotifications(request, exchange, deps)).rejects.toMatchObject({
    code: "store.unavailable",
  });
  expect([...subscribed]).toEqual([]);
});

test("releases the resource subscriptions of a stream that is closed", async () => {
  const { deps, subscribed } = createTestDeps(async () => () => {});
  const stream = await listenNotifications(request, exchange, deps);
  expect([...subscribed]).toEqual(["x://one", "x://two"]);
  stream.close();
  expect([...subscribed]).toEqual([]);
});

test("ends the stream of a session that ended while the stream was opened", async () => {
  const clock = { now: () => 0, monotonic: () => 0, after: () => ({ stop() {} }) };
  const sessions = new McpSessions(clock);
  const params = { version: "2025-11-25", capabilities: {}, server: null };
  const session = sessions.open(userNamed("a"), params);
  const { deps } = createTestDeps(async () => {
    sessions.remove(session);
    return () => {};
  });
  const stream = await sessionNotifications(session, deps);
  const items: unknown[] = [];
  for await (const item of stream.items(new AbortController().signal)) items.push(item);
  stream.close();
  expect(items).toEqual([]);
});
