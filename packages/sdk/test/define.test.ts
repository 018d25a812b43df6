import { expect, test } from "vitest";
import * as sdk from "../src/index.ts";
import { definePlugin, tool } from "../src/index.ts";
import * as testing from "../src/testing/index.ts";

test("refuses to define a plugin with two exports of the same id", () => {
  const same_id = [tool({ id: "echo", run: () => "a" }), tool({ id: "echo", run: () => "b" })];
  expect(() => definePlugin({ package_id: "acme/x", version: "0.1.0", exports: same_id })).toThrow(
    expect.objectContaining({ code: "package.invalid", message: expect.stringContaining("echo") }),
  );
});

test("exports exactly the reviewed list of names", () => {
  expect(Object.keys(sdk).sort()).toEqual([
    "compactor",
    "definePlugin",
    "fail",
    "harness",
    "hook",
    "retryLater",
    "serve",
    "tool",
  ]);
  expect(Object.keys(testing).sort()).toEqual([
    "checkManifest",
    "connectPlugin",
    "runPlugin",
    "startPlugin",
    "testContext",
    "testKernelPlugin",
  ]);
});
