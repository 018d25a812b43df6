import { BackplaneError, type ErrorCode } from "@backplane/contract";
import { expect, test } from "vitest";
import { isNoLongerStored } from "../../../src/pages/sessions/content-blocks.tsx";

test.for(["artifact.not_found", "invocation.not_found"] as ErrorCode[])(
  "reports a file as no longer stored if the gateway answers %s",
  (code) => {
    expect(isNoLongerStored(new BackplaneError(code))).toBe(true);
  },
);

test.for(["daemon.unreachable", "internal", "auth.invalid"] as ErrorCode[])(
  "does not report a file as no longer stored if loading it fails with %s",
  (code) => {
    expect(isNoLongerStored(new BackplaneError(code))).toBe(false);
  },
);

test("does not report a file as no longer stored while it loads or if the network fails", () => {
  expect(isNoLongerStored(null)).toBe(false);
  expect(isNoLongerStored(new TypeError("Failed to fetch"))).toBe(false);
});
