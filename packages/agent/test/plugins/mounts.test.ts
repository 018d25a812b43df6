import type { AdapterRoute } from "@backplane/contract";
import { expect, test } from "vitest";
import { findMount, mountRoute } from "../../src/plugins/mounts.ts";

const route = (path: string, method: AdapterRoute["method"] = "GET"): AdapterRoute => ({
  method,
  path,
  summary: "s",
  scope: "admin",
});

test.each([
  ["/things", false, "/x/acme/things"],
  ["/", false, "/x/acme"],
  ["/api/things", false, "/x/acme/api/things"],
  ["/api/things", true, "/api/things"],
  ["/apis", true, "/x/acme/apis"],
  ["/things/{id}", true, "/x/acme/things/{id}"],
])("mounts %s (/api allowed: %s) at %s", (path, api, mounted) => {
  expect(mountRoute("acme", route(path), api).mount.mounted).toBe(mounted);
});

test.each([
  "",
  "things",
  "/a/../b",
  "/a//b",
  "/a/",
  "/%2e%2e/b",
  "/a/{x}/{x}",
  "/a b",
  "/{}",
  "/a{b}",
  "/./a",
  "/...",
])("rejects the path %j", (path) => {
  expect(() => mountRoute("acme", route(path), true)).toThrow(
    expect.objectContaining({ code: "plugin.invalid" }),
  );
});

test("prefers the most literal route, decodes parameters and matches nothing else", () => {
  const mounts = ["/api/config/{key}", "/api/{kind}/active", "/api/config/active", "/api/config"]
    .map((path) => mountRoute("web", route(path), true))
    .toSorted((a, b) => b.literal_chars - a.literal_chars);
  const find = (path: string, method = "GET") => {
    const match = findMount(mounts, method, path);
    return match === null ? null : [match.mount.path, match.params];
  };
  expect(find("/api/config")).toEqual(["/api/config", {}]);
  expect(find("/api/config/active")).toEqual(["/api/config/active", {}]);
  expect(find("/api/config/a.b%2Fc%20d")).toEqual(["/api/config/{key}", { key: "a.b/c d" }]);
  expect(find("/api/llm/active")).toEqual(["/api/{kind}/active", { kind: "llm" }]);
  for (const path of [
    "/api/config/",
    "/api/config//",
    "/api/config/%E0%A4%A",
    "/api",
    "/api/config/a/b",
    "api/config",
  ]) {
    expect(find(path)).toBeNull();
  }
  expect(find("/api/config", "POST")).toBeNull();
});
