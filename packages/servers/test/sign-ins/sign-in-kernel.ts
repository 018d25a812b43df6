/** A test kernel with a remote server, a real authorization server, and a person who signs in. */

import { hash } from "node:crypto";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { HostRequest, RunOutcome, ServerChallenge } from "@backplane/ports";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { onTestFinished } from "vitest";
import {
  type AuthorizationServer,
  startAuthorizationServer,
} from "../../../../test/support/mcp/oauth-server.ts";

export const SERVER_URL = "http://127.0.0.1:1/mcp";
export const buildServerManifest = (secret_slots: string[]) =>
  manifest([], {
    package_id: "acme/notes",
    runtime: {
      protocol: "mcp.http",
      transport: "http",
      entrypoint: [SERVER_URL],
      permissions: { network: "egress", allowed_domains: ["*"], secret_slots },
    },
  });
export const SERVER = buildServerManifest([]);
const TOOL = ToolExportSchema.parse({
  id: "mcp_notes_read",
  kind: "tool",
  permissions: SERVER.runtime.permissions,
  tool: { effect_class: "non_idempotent_write", native_name: "read" },
});

/** Sends real requests, except to the MCP server, which does not exist and whose metadata is scripted. */
export function createSignInRunner(as: AuthorizationServer): ScriptedRunner & {
  fetched: HostRequest[];
  unavailable: boolean;
  responses_after: Promise<void> | null;
  token_responses_after: Promise<void> | null;
} {
  const fetched: HostRequest[] = [];
  const runner = Object.assign(new ScriptedRunner(), {
    fetched,
    unavailable: false,
    /** Requests are answered only after this promise has resolved. */
    responses_after: null as Promise<void> | null,
    /** Responses of the token endpoint arrive only after this promise has resolved. */
    token_responses_after: null as Promise<void> | null,
    async fetch(request: HostRequest) {
      fetched.push(request);
      await runner.responses_after;
      if (runner.unavailable) return { status: 503, headers: {}, body: "", encoding: "utf8" as const };
      if (request.url.startsWith("http://127.0.0.1:1/")) {
        const metadata = {
          resource: SERVER_URL,
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
      if (request.url.endsWith("/token")) await runner.token_responses_after;
      return { status: response.status, headers: {}, body, encoding: "utf8" as const };
    },
  });
  runner.description = () => ({ exports: [TOOL], schemas: {}, warnings: [], info: {} });
  runner.script = ({ request }) => createOutcome(as, request.context.secrets.authorization);
  return runner;
}

/** The outcome of a call to an MCP server that requires a token with the scope `needs`. */
export function createOutcome(
  as: AuthorizationServer,
  token: string | undefined,
  needs = "notes",
): RunOutcome {
  const valid_token = as.findToken(token ?? "", SERVER_URL);
  if (valid_token === null) return createRefusal(401, "invalid_token", needs, token);
  return valid_token.scope.split(" ").includes(needs)
    ? ok()
    : createRefusal(403, "insufficient_scope", needs, token);
}

export function createRefusal(
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

export async function createAuthorizationServer(): Promise<AuthorizationServer> {
  const as = await startAuthorizationServer();
  onTestFinished(() => as.close());
  return as;
}

export async function createSignInKernel() {
  const as = await createAuthorizationServer();
  const runner = createSignInRunner(as);
  const fixture = await createTestKernel({ runner });
  const { binding_id } = await fixture.bind(SERVER);
  return { as, runner, fixture, binding_id };
}

export const readTicket = (start_url: string | null) => new URL(start_url!).searchParams.get("ticket")!;

/**
 * Starts a login and visits the authorization server as a browser does. Returns the URL that the server redirects to and
 * the browser's secrets, which complete the login.
 */
export async function startLogin({ kernel }: TestKernel, as: AuthorizationServer, binding_id: string) {
  const { start_url, expires_at } = await kernel.signIns.begin(admin, binding_id, {});
  const opened = await kernel.signIns.open(readTicket(start_url), { browser_secrets: [] });
  const redirect = await as.visit(opened.authorization_url);
  return { redirect, browser: { browser_secrets: [opened.secret!] }, expires_at: expires_at! };
}

export async function signIn(
  fixture: TestKernel,
  as: AuthorizationServer,
  binding_id: string,
): Promise<void> {
  const { redirect, browser } = await startLogin(fixture, as, binding_id);
  await fixture.kernel.signIns.complete(browser, redirect);
}

/** Counts the refresh requests that were sent, answered or not. */
export const countRenewals = ({ fetched }: { fetched: HostRequest[] }) =>
  fetched.filter(({ body }) => body?.includes("grant_type=refresh_token") === true).length;

export const callReadTool = (fixture: TestKernel) => fixture.call({ export_id: "mcp_notes_read", input: {} });
