import type { Invocation } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";
import { expect, test } from "vitest";
import { LiveCall } from "../../src/calls/live-calls.ts";

test("calls each settlement listener of a call once, except those that were removed", async () => {
  const live = new LiveCall({ id: "inv_1" } as InvocationRow, 0);
  const received: string[] = [];
  const forget = live.onSettled(() => received.push("gone"));
  live.onSettled(() => received.push("here"));
  forget();
  live.finish({ id: "inv_1" } as Invocation);
  live.finish({ id: "again" } as Invocation);
  live.onSettled(({ id }) => received.push(id));
  expect(received).toEqual(["here", "inv_1"]);
  expect((await live.settled).id).toBe("inv_1");
});
