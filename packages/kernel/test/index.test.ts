import { expect, test } from "vitest";
import * as kernel from "../src/index.ts";

test("a new export is a visible decision", () => {
  expect(Object.keys(kernel).sort()).toEqual([
    "blockOf",
    "checkClientSessionId",
    "clientSessionIdProblem",
    "contextOf",
    "createBus",
    "createFanout",
    "createKernel",
    "createPersister",
    "createPluginSystem",
    "createSessions",
    "entryFor",
    "entryOfBlock",
    "hostPolicy",
    "isPluginGrantKey",
    "tapeName",
  ]);
});
