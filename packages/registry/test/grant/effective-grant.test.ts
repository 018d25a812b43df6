import { hostPolicy } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { grantWith } from "@backplane/test-kit/grant-with";
import { expect, test } from "vitest";
import { callerLevel, gatewayDomains } from "../../src/grant/effective-grant.ts";

const content = manifest(
  [
    toolExport("reach", {
      permissions: {
        network: "egress",
        filesystem: "scratch",
        gateway_api_scopes: ["chains:read", "runs:read"],
        allowed_domains: ["*.example.com", "other.org"],
      },
    }),
  ],
  {
    runtime: { protocol: "rterm.plugin.v1", entrypoint: ["./plugin"], capabilities: ["fs.read", "net.dial"] },
  },
);
const mount = { source: "/srv/data", target: "/data", writable: true };

test("narrows the grant by manifest, binding, project, org, host and caller", async () => {
  const fixture = await createTestKernel({
    host: {
      default_domains: ["*.example.com", "*.third.net"],
      orgs: new Map([["org_local", { gateway_api_scopes: ["chains:read"] }]]),
      projects: new Map([["org_local/proj_default", { filesystem: "none" }]]),
    },
  });
  await fixture.bind(content, { policy: { mounts: [mount], capabilities: ["fs.read"] } });
  const { grant } = await fixture.call({
    export_id: "reach",
    narrow: { allowed_domains: ["api.example.com"] },
  });
  expect(grant).toEqual({
    class: "isolated",
    network: "egress",
    allowed_domains: ["api.example.com"],
    filesystem: "none",
    mounts: [mount],
    gateway_api_scopes: ["chains:read"],
    secret_slots: [],
    capabilities: ["fs.read"],
    tools: null,
  });
  const request = fixture.runner.requests.at(-1)!;
  expect(request.grant).toEqual(grant);
  expect(request.context.grant).toEqual(grant);
});

test("does not narrow by fields that the binding's permissions leave out", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { policy: { permissions: { filesystem: "none" } } });
  const { grant } = await fixture.call({ export_id: "reach" });
  expect(grant).toMatchObject({ filesystem: "none", network: "egress", capabilities: [], mounts: [] });
});

test("lets the host forbid mounts, network and low classes whatever the binding sets", async () => {
  const fixture = await createTestKernel({ host: { mounts: false, network: "none", min_class: "isolated" } });
  const bound = await fixture.bind(content, { policy: { mounts: [mount], class: "worker" } });
  const { grant } = await fixture.call({ export_id: "reach" });
  expect(grant).toMatchObject({ class: "isolated", network: "none", allowed_domains: [], mounts: [] });
  expect((await fixture.kernel.bindings.get(user, bound.binding_id)).class_lowered_by).toBe(admin.actor);
});

test("shows requested and granted permissions side by side", async () => {
  const fixture = await createTestKernel({
    host: { orgs: new Map([["org_local", { gateway_api_scopes: ["chains:read"] }]]) },
  });
  const { binding_id } = await fixture.bind(content, { policy: { allowed_domains: ["api.example.com"] } });
  const { requested, grant } = await fixture.kernel.bindings.validate(user, binding_id);
  expect(requested).toMatchObject({ gateway_api_scopes: ["chains:read", "runs:read"], network: "egress" });
  const called = await fixture.call({ export_id: "reach" });
  expect(grant).toEqual(called.grant);
  expect(grant).toMatchObject({ gateway_api_scopes: ["chains:read"], allowed_domains: ["api.example.com"] });
});

test("limits the gateway's own requests by the levels of host, org and project", () => {
  const scope = { org_id: "org_local", project_id: "proj_a" };
  const domains = (own: Parameters<typeof hostPolicy>[0]) => gatewayDomains(scope, hostPolicy(own));
  expect(domains({})).toEqual(["*"]);
  const orgs = new Map([["org_local", { allowed_domains: ["a.example", "b.example"] }]]);
  expect(domains({ orgs })).toEqual(["a.example", "b.example"]);
  const projects = new Map([["org_local/proj_a", { allowed_domains: ["b.example", "c.example"] }]]);
  expect(domains({ orgs, projects })).toEqual(["b.example"]);
  expect(domains({ orgs, default_domains: ["a.example"] })).toEqual(["a.example"]);
  expect(domains({ orgs, network: "none" })).toEqual([]);
});

test("lets a plugin's call run on the host only if the plugin itself does", () => {
  const levelWith = (host?: true) =>
    callerLevel(
      {
        ...user,
        delegation: { invocation_id: "inv_1", scopes: [], grant: grantWith(host === true ? { host } : {}) },
      },
      undefined,
    );
  expect([levelWith()?.host, levelWith(true)?.host]).toEqual([false, true]);
});
