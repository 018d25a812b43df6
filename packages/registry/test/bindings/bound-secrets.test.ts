/** Which secrets a binding may use, and how they reach the plugin. */

import type { BindingPatch } from "@backplane/contract";
import { BindingPolicySchema, ToolExportSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { config, jira, schemas } from "./jira-package.ts";

verifies(
  "secret.slots",
  "refuses secrets for undeclared slots, and missing, foreign-org and foreign-project secrets with the same message",
  async () => {
    const fixture = await createTestKernel();
    const other_org: Caller = { ...admin, scope: { org_id: "org_far", project_id: null } };
    await fixture.kernel.secrets.put(other_org, "jira_token", "far-away-value");
    const findBindIssues = async (secrets: Record<string, string>) =>
      await fixture
        .bind(jira, { config, secrets }, schemas)
        .catch((error: { details: unknown }) => error.details);
    const issue = (path: string, message: string) => ({ issues: [{ path, message }] });
    expect(await findBindIssues({ other: "secret://org_local/x" })).toEqual(
      issue("/secrets/other", "the export does not declare this slot"),
    );
    expect(await findBindIssues({ jira_token: "secret://org_local/jira_token" })).toEqual(
      issue("/secrets/jira_token", "there is no secret secret://org_local/jira_token"),
    );
    const other_project: Caller = { ...user, scope: { ...user.scope, project_id: "proj_next" } };
    await fixture.kernel.secrets.put(other_project, "theirs", "next-door-value");
    expect(await findBindIssues({ jira_token: "secret://org_local/theirs" })).toEqual(
      issue("/secrets/jira_token", "there is no secret secret://org_local/theirs"),
    );
    expect(await findBindIssues({ jira_token: "secret://org_far/jira_token" })).toEqual(
      issue("/secrets/jira_token", "there is no secret secret://org_far/jira_token"),
    );
    // The plugin would receive the organization's credentials for a registry.
    await fixture.kernel.secrets.put(admin, "registry_ghcr.io", "ada:correct-horse");
    expect(await findBindIssues({ jira_token: "secret://org_local/registry_ghcr.io" })).toEqual(
      issue(
        "/secrets/jira_token",
        "registry_ghcr.io is a credential for a registry, which no plugin receives",
      ),
    );
  },
);

verifies(
  "secret.slots",
  "passes a secret in the environment only to protocols without another channel, and records that in the grant",
  async () => {
    const secret_slots = ["token", "other"];
    const createKernelWithToken = async () => {
      const fixture = await createTestKernel();
      await fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
      return fixture;
    };
    /** A server that describes its one tool. */
    const server = (protocol: string) =>
      manifest([], {
        package_id: `acme/${protocol.replaceAll(".", "-")}`,
        runtime: { protocol, entrypoint: ["node", "server.js"], permissions: { secret_slots } },
      });
    const secrets = { token: "secret://org_local/token", other: "secret://org_local/token" };
    const binding = (secret_env: Record<string, string>) => ({ secrets, policy: { secret_env } });
    for (const protocol of ["mcp.stdio", "hefty.jsonrpc"]) {
      const fixture = await createKernelWithToken();
      const content = server(protocol);
      const { permissions } = content.runtime;
      const described = ToolExportSchema.parse({ ...toolExport("search"), permissions });
      fixture.runner.description = () => ({ exports: [described], schemas: {}, warnings: [], info: {} });
      await fixture.bind(content, binding({ token: "API_TOKEN" }));
      const { grant, ...rest } = await fixture.call({ export_id: "search", input: {} });
      const named_by_slot = protocol === "mcp.stdio" ? { other: "OTHER" } : {};
      expect(grant?.secret_env).toEqual({ token: "API_TOKEN", ...named_by_slot });
      const [request] = fixture.runner.requests;
      expect(request!.grant.secret_env).toEqual({ token: "API_TOKEN", ...named_by_slot });
      // The process that was described also runs the call.
      expect(fixture.runner.describe_requests[0]).toMatchObject({
        pool_key: request!.pool_key,
        grant: request!.grant,
      });
      expect(JSON.stringify({ grant, rest })).not.toContain("s3cr3t-value");
      expect(request!.context.secrets).toEqual({ token: "s3cr3t-value", other: "s3cr3t-value" });
      // A slot that is bound but not granted is not delivered, and without the slot the variable is not set either.
      const narrow = { secret_slots: ["other"] };
      const narrowed = await fixture.call({ export_id: "search", input: {}, narrow });
      expect(narrowed.grant?.secret_env ?? {}).toEqual(named_by_slot);
      expect(fixture.runner.requests.at(-1)!.context.secrets).toEqual({ other: "s3cr3t-value" });
    }
    const refused = async (content: ReturnType<typeof manifest>, secret_env: Record<string, string>) => {
      await expect((await createKernelWithToken()).bind(content, binding(secret_env))).rejects.toMatchObject({
        code: "binding.invalid",
        message: expect.stringContaining("/policy/secret_env"),
      });
    };
    for (const protocol of ["vai.rpc.v1", "rterm.plugin.v1"]) {
      const runtime = { protocol, entrypoint: ["node", "plugin.js"] };
      await refused(manifest([toolExport("search", { permissions: { secret_slots } })], { runtime }), {
        token: "API_TOKEN",
      });
    }
    await refused(server("mcp.stdio"), { missing: "API_TOKEN" });
    await refused(server("mcp.stdio"), { token: "API_TOKEN", other: "API_TOKEN" });
    for (const name of ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "lower", "A=B", ""]) {
      expect(BindingPolicySchema.safeParse({ secret_env: { token: name } }).success).toBe(false);
    }
  },
);

describe("the environment variable of a secret that is bound to an MCP server", () => {
  const REF = "secret://org_local/token";

  const placeholder = (name: string) => `$${`{${name}}`}`;

  async function bindServer(body: Parameters<TestKernel["bind"]>[1]) {
    const fixture = await createTestKernel();
    await fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
    const content = manifest([], {
      package_id: "acme/server",
      runtime: {
        protocol: "mcp.stdio",
        entrypoint: ["node", "server.js"],
        permissions: { secret_slots: ["token"] },
      },
    });
    const bound = await fixture.bind(content, { export_id: "*", ...body });
    const patch = (change: BindingPatch) =>
      fixture.kernel.bindings.patch(admin, bound.binding_id, change, undefined);
    return { fixture, bound, patch, content };
  }

  verifies("secret.slots", "is named after the slot unless the operator chooses another", async () => {
    const { bound, patch } = await bindServer({ secrets: { token: REF } });
    expect(bound.policy.secret_env).toEqual({ token: "TOKEN" });
    const added = await patch({ secrets: { token: REF, api_key: REF } });
    expect(added.policy.secret_env).toEqual({ token: "TOKEN", api_key: "API_KEY" });
    const named = await patch({
      changes: {
        secrets: { other: REF },
        policy: { secret_env: { ...added.policy.secret_env, other: "X" } },
      },
    });
    expect(named.policy.secret_env).toEqual({ token: "TOKEN", api_key: "API_KEY", other: "X" });
    // A slot that only the binding defines loses its variable together with its secret.
    const removed = await patch({ changes: { secrets: { api_key: null, token: null } } });
    expect(removed.policy.secret_env).toEqual({ token: "TOKEN", other: "X" });
  });

  test("is not set for a slot that the configuration refers to", async () => {
    const config = {
      args: ["--token", placeholder("TOKEN")],
      env: { AUTH: `Bearer ${placeholder("api_key")}` },
    };
    const { bound } = await bindServer({ config, secrets: { token: REF, api_key: REF } });
    expect(bound.policy).not.toHaveProperty("secret_env");
  });

  test("is not set for a remote server", async () => {
    const fixture = await createTestKernel();
    await fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
    const content = manifest([], {
      package_id: "acme/remote",
      runtime: {
        protocol: "mcp.http",
        entrypoint: ["https://example.com/mcp"],
        permissions: { network: "egress", secret_slots: ["token"] },
      },
    });
    const bound = await fixture.bind(content, { export_id: "*", secrets: { token: REF } });
    expect(bound.policy).not.toHaveProperty("secret_env");
  });

  test("is added only by a change that binds the slot", async () => {
    const { patch } = await bindServer({ secrets: { token: REF } });
    expect((await patch({ policy: {} })).policy).toEqual({});
    expect((await patch({ policy: { timeout_ms: 5_000 }, secrets: { token: REF } })).policy).toEqual({
      timeout_ms: 5_000,
    });
    const bound_again = await patch({ changes: { secrets: { token: REF } } });
    expect(bound_again.policy.secret_env).toEqual({ token: "TOKEN" });
  });

  test("is not added by an upgrade or a rollback", async () => {
    const { fixture, bound, patch, content } = await bindServer({ secrets: { token: REF } });
    await patch({ policy: {} });
    await fixture.kernel.packages.install(admin, fixture.importer.add({ ...content, version: "0.2.0" }));
    const upgraded = await patch({ package_version: "0.2.0", changes: { secrets: { api_key: REF } } });
    expect(upgraded.policy.secret_env).toEqual({ api_key: "API_KEY" });
    await patch({ policy: {} });
    await fixture.kernel.bindings.rollback(admin, bound.binding_id);
    const restored = await fixture.kernel.bindings.rollback(admin, bound.binding_id);
    expect(restored).toMatchObject({ secrets: { token: REF, api_key: REF }, policy: {} });
    expect(restored.policy).not.toHaveProperty("secret_env");
  });

  test("is not given to a rollout share for a secret that had none", async () => {
    const { fixture, patch, content } = await bindServer({ secrets: { token: REF } });
    await patch({ policy: {} });
    await fixture.kernel.packages.install(admin, fixture.importer.add({ ...content, version: "0.2.0" }));
    const share = await fixture.kernel.bindings.create(admin, {
      package_id: content.package_id,
      package_version: "0.2.0",
      export_id: "*",
      secrets: { api_key: REF },
      rollout: { traffic_percent: 10 },
    });
    expect(share.policy.secret_env).toEqual({ api_key: "API_KEY" });
  });

  test("must not be one that programs or the sandbox interpret", async () => {
    const binding = bindServer({ secrets: { node_options: REF } });
    await expect(binding).rejects.toMatchObject({
      code: "binding.invalid",
      message:
        "/secrets/node_options: NODE_OPTIONS is a name that programs or the sandbox interpret; map the slot to another variable in policy.secret_env",
    });
    const secrets = { node_options: REF };
    const { bound } = await bindServer({ secrets, policy: { secret_env: { node_options: "OPTIONS" } } });
    expect(bound.policy.secret_env).toEqual({ node_options: "OPTIONS" });
  });
});
