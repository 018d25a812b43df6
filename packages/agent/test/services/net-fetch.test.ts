import { BackplaneError, type Json } from "@backplane/contract";
import type { LiveCall } from "@backplane/door";
import type { HostRequest } from "@backplane/ports";
import type { LiveConfig } from "@backplane/registry";
import { expect, test } from "vitest";
import { createNetFetch } from "../../src/services/net-fetch.ts";

const refusal = {
  host: "evil.test",
  port: 80,
  reason: "domain.not_allowed",
  message: "no",
  at: "2026-01-01T00:00:00Z",
};

function createTestNetFetch(settings: Record<string, Json>) {
  const requests: HostRequest[] = [];
  const call = { egress: null } as LiveCall;
  const service = createNetFetch({
    runner: {
      fetch: async (request) => {
        requests.push(request);
        if (request.url.includes("evil"))
          throw new BackplaneError("policy.denied", "no", { details: { refusal } });
        return { status: 200, headers: {}, body: "ok", encoding: "utf8" };
      },
    },
    config: { get: async (_org, key) => settings[key] } as LiveConfig,
    live: { get: (id) => (id === "inv_1" ? call : undefined) },
  });
  const identity = { plugin: "my-tool", caller: null, call: { invocation_id: "inv_1", session_id: null } };
  return { requests, call, fetch: (args: Record<string, Json>, as = identity) => service(args, as) };
}

test("uses the operator's domains for the plugin, whatever the plugin sends", async () => {
  const { fetch, requests } = createTestNetFetch({
    "plugin.my_tool.allowed_domains": ["a.test"],
    "plugin.other.allowed_domains": ["*"],
  });
  const args = { url: "http://a.test/", allowed_domains: ["*"], headers: { a: "b" }, timeout_ms: 9_999_999 };
  expect(await fetch(args)).toMatchObject({ status: 200, body: "ok" });
  expect(requests).toEqual([
    {
      url: "http://a.test/",
      method: "GET",
      headers: { a: "b" },
      body: null,
      encoding: "utf8",
      timeout_ms: 600_000,
      allowed_domains: ["a.test"],
    },
  ]);
});

test("records a refusal with the call and does not send a malformed request", async () => {
  const { fetch, requests, call } = createTestNetFetch({});
  await expect(fetch({ url: "http://evil.test/" })).rejects.toMatchObject({ code: "policy.denied" });
  await expect(fetch({ url: "http://evil.test/" })).rejects.toMatchObject({ code: "policy.denied" });
  expect(call.egress).toEqual({ refused: 2, refusals: [refusal, refusal] });
  for (const broken of [
    {},
    { url: 1 },
    { url: "http://a.test", headers: { a: 1 } },
    { url: "x", body: {} },
  ]) {
    await expect(fetch(broken as Record<string, Json>)).rejects.toMatchObject({ code: "request.invalid" });
  }
  expect(requests).toHaveLength(2);
});
