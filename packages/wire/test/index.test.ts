import { expect, test } from "vitest";
import * as wire from "../src/index.ts";

test("a new export is a visible decision", () => {
  expect(Object.keys(wire).sort()).toEqual([
    "ContentLengthDecoder",
    "NdjsonDecoder",
    "RpcError",
    "RpcPeer",
    "SideHost",
    "VaiHost",
    "VaiPlugin",
    "encodeContentLength",
    "encodeNdjson",
    "frameLimits",
    "memoryTransportPair",
    "stdioTransport",
  ]);
});
