/** Which secrets a binding may use, and how they reach the plugin. */

import { BindingPolicySchema, ToolExportSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
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
    // The plugin would receive the organization's login for a registry.
    await fixture.kernel.secrets.put(admin, "registry_ghcr.io", "ada:correct-horse");
    expect(await findBindIssues({ jira_token: "secret://org_local/registry_ghcr.io" })).toEqual(
      issue("/secrets/jira_token", "registry_ghcr.io is a login for a registry, which no plugin receives"),
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
      expect(grant?.secret_env).toEqual({ token: "API_TOKEN" });
      const [request] = fixture.runner.requests;
      expect(request!.grant.secret_env).toEqual({ token: "API_TOKEN" });
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
      expect(narrowed.grant?.secret_env).toBeUndefined();
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
