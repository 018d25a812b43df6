/** A test kernel with a remote server, a real authorization server, and a person who signs in. */

import { hash } from "node:crypto";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { HostRequest, RunOutcome, ServerChallenge } from "@backplane/ports";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { onTestFinished } from "vitest";
import { type AuthorizationServer, startAuthorizationServer } from "../../../../test/support/oauth-server.ts";

export const URL_OF_SERVER = "http://127.0.0.1:1/mcp";
export const serverWith = (secret_slots: string[]) =>
  manifest([], {
    package_id: "acme/notes",
    runtime: {
      protocol: "mcp.http",
      transport: "http",
      entrypoint: [URL_OF_SERVER],
      permissions: { network: "egress", allowed_domains: ["*"], secret_slots },
    },
  });
export const SERVER = serverWith([]);
const TOOL = ToolExportSchema.parse({
  id: "mcp_notes_read",
  kind: "tool",
  permissions: SERVER.runtime.permissions,
  tool: { effect_class: "non_idempotent_write", native_name: "read" },
});

/** Sends real requests, except to the MCP server, which does not exist and whose metadata is scripted. */
export function runnerAt(as: AuthorizationServer): ScriptedRunner & {
  fetched: HostRequest[];
  away: boolean;
  hangs: Promise<void> | null;
  late: Promise<void> | null;
} {
  const fetched: HostRequest[] = [];
  const runner = Object.assign(new ScriptedRunner(), {
    fetched,
    away: false,
    /** Requests are answered only after this promise. */
    hangs: null as Promise<void> | null,
    /** Responses of the token endpoint arrive only after this promise. */
    late: null as Promise<void> | null,
    async fetch(request: HostRequest) {
      fetched.push(request);
      await runner.hangs;
      if (runner.away) return { status: 503, headers: {}, body: "", encoding: "utf8" as const };
      if (request.url.startsWith("http://127.0.0.1:1/")) {
        const metadata = {
          resource: URL_OF_SERVER,
          authorization_servers: [as.issuer],
          scopes_supported: ["notes"],
        };
        const body = JSON.stringify(metadata);
        return { status: 200, headers: {}, body, encoding: "utf8" as const };
      }
      const response = await fetch(request.url, {
        method: request.method,
        headers: request.headers,
        body: request.body,
        redirect: "manual",
      });
      const body = await response.text();
      if (request.url.endsWith("/token")) await runner.late;
      return { status: response.status, headers: {}, body, encoding: "utf8" as const };
    },
  });
  runner.description = () => ({ exports: [TOOL], schemas: {}, warnings: [], info: {} });
  runner.script = ({ request }) => serve(as, request.context.secrets.authorization);
  return runner;
}

/** The outcome of a call to a server that uses this authorization server. */
export function serve(as: AuthorizationServer, token: string | undefined, needs = "notes"): RunOutcome {
  const held = as.findToken(token ?? "", URL_OF_SERVER);
  if (held === null) return refusal(401, "invalid_token", needs, token);
  return held.scope.split(" ").includes(needs) ? ok() : refusal(403, "insufficient_scope", needs, token);
}

export function refusal(
  status: 401 | 403,
  error: string,
  scope: string,
  token: string | undefined,
): RunOutcome {
  const credential_hash = token === undefined ? null : hash("sha256", `Bearer ${token}`, "hex");
  const challenge: ServerChallenge = {
    status,
    error,
    scope,
    resource_metadata: null,
    shown: credential_hash,
  };
  return ended("failed", "sign_in.needed", {
    error: { code: "sign_in.needed", message: "no", details: { challenge: { ...challenge } } },
  });
}

export async function authorizationServer(): Promise<AuthorizationServer> {
  const as = await startAuthorizationServer();
  onTestFinished(() => as.close());
  return as;
}

export async function createSignInKernel() {
  const as = await authorizationServer();
  const runner = runnerAt(as);
  const fixture = await createTestKernel({ runner });
  const { binding_id } = await fixture.bind(SERVER);
  return { as, runner, fixture, binding_id };
}

export const ticketOf = (start_url: string | null) => new URL(start_url!).searchParams.get("ticket")!;

/** Acts as a person with a browser. Returns the final URL and the browser's secrets. */
export async function visit({ kernel }: TestKernel, as: AuthorizationServer, binding_id: string) {
  const { start_url, expires_at } = await kernel.signIns.begin(admin, binding_id, {});
  const opened = await kernel.signIns.open(ticketOf(start_url), { browser: [] });
  const redirect = await as.visit(opened.authorization_url);
  return { redirect, browser: { browser: [opened.secret!] }, expires_at: expires_at! };
}

export async function signIn(
  fixture: TestKernel,
  as: AuthorizationServer,
  binding_id: string,
): Promise<void> {
  const { redirect, browser } = await visit(fixture, as, binding_id);
  await fixture.kernel.signIns.complete(browser, redirect);
}

/** Counts the refresh requests that were sent, answered or not. */
export const renewals = ({ fetched }: { fetched: HostRequest[] }) =>
  fetched.filter(({ body }) => body?.includes("grant_type=refresh_token") === true).length;

export const call = (fixture: TestKernel) => fixture.call({ export_id: "mcp_notes_read", input: {} });
